-- Whether the server takes no writes from this session: it is a standby, or its transactions are read-only. Asked of each new connection where a server that
-- takes writes is wanted.
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean
