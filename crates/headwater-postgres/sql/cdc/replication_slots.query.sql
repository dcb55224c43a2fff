-- Lists Headwater's slots in this database: who reads them, and how much WAL they make the server
-- keep.
SELECT s.slot_name::text AS slot, s.plugin::text AS plugin, s.temporary, s.active_pid, r.application_name,
       s.wal_status, s.safe_wal_size,
       pg_catalog.pg_wal_lsn_diff(w.now, s.restart_lsn)::bigint AS retained_bytes,
       pg_catalog.pg_wal_lsn_diff(w.now, s.confirmed_flush_lsn)::bigint AS behind_bytes
  FROM (SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END AS now) w,
       pg_replication_slots s
  LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid
 WHERE s.database = pg_catalog.current_database() AND pg_catalog.starts_with(s.slot_name, 'headwater_n')
 ORDER BY s.slot_name
