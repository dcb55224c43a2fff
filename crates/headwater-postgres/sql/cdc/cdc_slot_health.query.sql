-- Returns the health of a durable slot.
SELECT s.plugin::text AS plugin, s.wal_status, s.safe_wal_size, s.active,
       pg_catalog.pg_wal_lsn_diff(CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END, s.restart_lsn)::bigint
           AS retained_bytes,
       pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_slot_wal_keep_size')) AS keep_bytes
  FROM pg_replication_slots s
 WHERE s.slot_name = $1
