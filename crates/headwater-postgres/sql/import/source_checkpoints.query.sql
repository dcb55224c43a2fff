-- Reads the checkpoints of another event bus. src/import/carry.rs fills in what stands in braces.
SELECT c.{subscriber}::text AS subscriber_id, c.{sequence}::bigint AS sequence FROM {table} c ORDER BY 1
