-- Drops a slot of this database that nobody reads.
SELECT pg_catalog.pg_drop_replication_slot(s.slot_name) FROM pg_replication_slots s
 WHERE s.slot_name = $1 AND s.database = pg_catalog.current_database()
