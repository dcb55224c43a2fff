-- Returns what `headwater status` reports about the server.
SELECT pg_catalog.current_setting('server_version') AS server_version, pg_catalog.current_database()::text AS database,
       pg_catalog.current_setting('fsync') = 'on' AND pg_catalog.current_setting('synchronous_commit') <> 'off' AS durable,
       pg_catalog.current_setting('wal_level') AS wal_level, pg_catalog.pg_postmaster_start_time() AS started_at
