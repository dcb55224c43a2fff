-- Returns whether the server refuses writes from this session: it is a standby, or its transactions
-- are read-only. It runs on each new connection where the caller wants a server that takes writes.
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean
