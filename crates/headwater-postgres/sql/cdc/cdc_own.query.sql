-- Takes the slot's lease, or continues in it.
SELECT o.term, coalesce(pg_catalog.pg_wal_lsn_diff(o.wal_end, '0/0'), 0)::bigint AS wal_end FROM headwater.cdc_own($1, $2, $3, $4, $5, $6) o
