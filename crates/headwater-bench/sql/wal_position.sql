-- Bytes of WAL written since the cluster was made.
SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint
