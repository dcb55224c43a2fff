-- Returns what `headwater doctor` checks in the server, one row. Settings are those of new sessions
-- of this role.
SELECT pg_catalog.current_setting('server_version') AS server_version, pg_catalog.current_setting('server_version_num')::int AS version_num,
       pg_catalog.pg_is_in_recovery() AS in_recovery, pg_catalog.current_setting('fsync') = 'on' AS fsync, pg_catalog.current_setting('full_page_writes') = 'on' AS full_page_writes,
       pg_catalog.current_setting('synchronous_commit') AS synchronous_commit, pg_catalog.current_setting('wal_level') AS wal_level,
       pg_catalog.current_setting('autovacuum') = 'on' AND pg_catalog.current_setting('track_counts') = 'on' AS autovacuum,
       pg_catalog.current_setting('max_connections')::bigint AS max_connections,
       (SELECT pg_catalog.count(*) FROM pg_stat_activity a WHERE coalesce(a.backend_type, 'client backend') = 'client backend') AS connections,
       -- The role with the most connections.
       (SELECT pg_catalog.format('role %s has %s, as %s', r.rolname, pg_catalog.count(*), coalesce(nullif(pg_catalog.max(a.application_name), ''), 'an unnamed application'))
          FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid
         WHERE coalesce(a.backend_type, 'client backend') = 'client backend' GROUP BY r.rolname ORDER BY pg_catalog.count(*) DESC, r.rolname LIMIT 1) AS connections_of,
       pg_catalog.current_setting('max_locks_per_transaction')::bigint
           * (pg_catalog.current_setting('max_connections')::bigint + pg_catalog.current_setting('max_prepared_transactions')::bigint) AS lock_room,
       (SELECT pg_catalog.count(*) FROM pg_class c WHERE c.relnamespace = pg_catalog.to_regnamespace('headwater_private') AND c.relkind IN ('r', 'p', 'i', 'I', 'S')) AS relations,
       -- Locks with a fast path take no room in the lock table.
       (SELECT pg_catalog.count(*) FROM pg_locks l WHERE NOT l.fastpath) AS locks,
       (SELECT coalesce(l.pid, 0) FROM pg_locks l WHERE NOT l.fastpath GROUP BY l.pid, l.virtualtransaction ORDER BY pg_catalog.count(*) DESC LIMIT 1) AS locks_pid,
       (SELECT pg_catalog.format('%s (%s, role %s) has %s', CASE WHEN l.pid IS NULL THEN 'a prepared transaction' ELSE pg_catalog.format('pid %s', l.pid) END,
                      coalesce(nullif(pg_catalog.max(a.application_name), ''), 'unnamed'), coalesce(pg_catalog.max(r.rolname), 'unknown'), pg_catalog.count(*))
          FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid LEFT JOIN pg_roles r ON r.oid = a.usesysid
         WHERE NOT l.fastpath GROUP BY l.pid, l.virtualtransaction ORDER BY pg_catalog.count(*) DESC LIMIT 1) AS locks_of,
       pg_catalog.pg_notification_queue_usage() AS notify_queue,
       -- A session that listens reads the queue after its transaction has ended. So the oldest open
       -- transactions come first.
       (SELECT a.pid FROM pg_stat_activity a WHERE a.backend_type = 'client backend' AND a.pid <> pg_catalog.pg_backend_pid() AND a.xact_start IS NOT NULL
         ORDER BY a.xact_start LIMIT 1) AS oldest_pid,
       (SELECT pg_catalog.format('pid %s (%s, role %s, %s)', a.pid, coalesce(nullif(a.application_name, ''), 'unnamed'), a.usename, a.state) FROM pg_stat_activity a
         WHERE a.backend_type = 'client backend' AND a.pid <> pg_catalog.pg_backend_pid() AND a.xact_start IS NOT NULL ORDER BY a.xact_start LIMIT 1) AS oldest,
       pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') OR pg_catalog.current_setting('is_superuser') = 'on' AS sees_all,
       current_user::text AS role, pg_catalog.current_setting('max_slot_wal_keep_size') AS max_slot_wal_keep_size,
       ARRAY(SELECT e.extname::text FROM pg_extension e) AS extensions, pg_catalog.clock_timestamp() AS now
