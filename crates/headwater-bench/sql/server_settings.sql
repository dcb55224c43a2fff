-- What the figures depend on.
SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('full_page_writes') AS full_page_writes,
       current_setting('wal_level') AS wal_level, current_setting('shared_buffers') AS shared_buffers,
       current_setting('max_wal_size') AS max_wal_size, current_setting('autovacuum') AS autovacuum
