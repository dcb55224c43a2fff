-- The checkpoints of another event bus. What stands in braces is put in by src/import/carry.rs.
SELECT c.{subscriber}::text AS subscriber_id, c.{sequence}::bigint AS sequence FROM {table} c ORDER BY 1
