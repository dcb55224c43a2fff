-- What `headwater status` says of the server.
SELECT current_setting('server_version') AS server_version, current_database()::text AS database,
       current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off' AS durable,
       current_setting('wal_level') AS wal_level, pg_postmaster_start_time() AS started_at
