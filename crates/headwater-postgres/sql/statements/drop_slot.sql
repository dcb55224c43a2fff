-- Drops a slot that nobody reads.
SELECT pg_drop_replication_slot($1)
