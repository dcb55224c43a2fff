-- What `headwater doctor` looks at of the server, one row. Settings are those of new sessions of this role.
SELECT current_setting('server_version') AS server_version, current_setting('server_version_num')::int AS version_num,
       pg_is_in_recovery() AS in_recovery, current_setting('fsync') = 'on' AS fsync, current_setting('full_page_writes') = 'on' AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('wal_level') AS wal_level,
       current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' AS autovacuum,
       current_setting('max_connections')::bigint AS max_connections,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.backend_type = 'client backend') AS connections,
       current_setting('max_locks_per_transaction')::bigint
           * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) AS lock_room,
       (SELECT count(*) FROM pg_class c WHERE c.relnamespace = to_regnamespace('headwater_private') AND c.relkind IN ('r', 'p', 'i', 'I')) AS relations,
       pg_notification_queue_usage() AS notify_queue, current_setting('max_slot_wal_keep_size') AS max_slot_wal_keep_size,
       ARRAY(SELECT e.extname::text FROM pg_extension e) AS extensions, clock_timestamp() AS now
