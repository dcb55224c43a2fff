-- What `headwater doctor` looks at of the server, one row. Settings are those of new sessions of this role.
SELECT current_setting('server_version') AS server_version, current_setting('server_version_num')::int AS version_num,
       pg_is_in_recovery() AS in_recovery, current_setting('fsync') = 'on' AS fsync, current_setting('full_page_writes') = 'on' AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('wal_level') AS wal_level,
       current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' AS autovacuum,
       current_setting('max_connections')::bigint AS max_connections,
       (SELECT count(*) FROM pg_stat_activity a WHERE coalesce(a.backend_type, 'client backend') = 'client backend') AS connections,
       -- Who has the most of them.
       (SELECT pg_catalog.format('role %s has %s, as %s', r.rolname, count(*), coalesce(nullif(pg_catalog.max(a.application_name), ''), 'an unnamed application'))
          FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid
         WHERE coalesce(a.backend_type, 'client backend') = 'client backend' GROUP BY r.rolname ORDER BY count(*) DESC, r.rolname LIMIT 1) AS connections_of,
       current_setting('max_locks_per_transaction')::bigint
           * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) AS lock_room,
       (SELECT count(*) FROM pg_class c WHERE c.relnamespace = to_regnamespace('headwater_private') AND c.relkind IN ('r', 'p', 'i', 'I')) AS relations,
       -- Those with a fast path take none of the room.
       (SELECT count(*) FROM pg_locks l WHERE NOT l.fastpath) AS locks,
       (SELECT coalesce(l.pid, 0) FROM pg_locks l WHERE NOT l.fastpath GROUP BY l.pid, l.virtualtransaction ORDER BY count(*) DESC LIMIT 1) AS locks_pid,
       (SELECT pg_catalog.format('%s (%s, role %s) has %s', CASE WHEN l.pid IS NULL THEN 'a prepared transaction' ELSE pg_catalog.format('pid %s', l.pid) END,
                      coalesce(nullif(pg_catalog.max(a.application_name), ''), 'unnamed'), coalesce(pg_catalog.max(r.rolname), 'unknown'), count(*))
          FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid LEFT JOIN pg_roles r ON r.oid = a.usesysid
         WHERE NOT l.fastpath GROUP BY l.pid, l.virtualtransaction ORDER BY count(*) DESC LIMIT 1) AS locks_of,
       pg_notification_queue_usage() AS notify_queue,
       -- Whoever listens reads the queue when its transaction has ended, so the oldest open ones come first.
       (SELECT a.pid FROM pg_stat_activity a WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
         ORDER BY a.xact_start LIMIT 1) AS oldest_pid,
       (SELECT pg_catalog.format('pid %s (%s, role %s, %s)', a.pid, coalesce(nullif(a.application_name, ''), 'unnamed'), a.usename, a.state) FROM pg_stat_activity a
         WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL ORDER BY a.xact_start LIMIT 1) AS oldest,
       pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') OR current_setting('is_superuser') = 'on' AS sees_all,
       current_user::text AS role, current_setting('max_slot_wal_keep_size') AS max_slot_wal_keep_size,
       ARRAY(SELECT e.extname::text FROM pg_extension e) AS extensions, clock_timestamp() AS now
