-- Lists the replication slots, and how much WAL each retains.
SELECT s.slot_name::text AS slot_name, s.active, coalesce(s.wal_status, 'lost') AS wal_status,
       coalesce(pg_catalog.pg_wal_lsn_diff(CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_receive_lsn() ELSE pg_catalog.pg_current_wal_lsn() END, s.restart_lsn), 0)::bigint
           AS retained
  FROM pg_replication_slots s
 WHERE NOT s.temporary
 ORDER BY s.slot_name
