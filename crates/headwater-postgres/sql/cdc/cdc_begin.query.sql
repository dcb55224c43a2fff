-- Records that the owner has begun to read the slot.
SELECT b.kept, pg_catalog.pg_wal_lsn_diff(b.wal_end, '0/0')::bigint AS wal_end FROM headwater.cdc_begin($1, $2, $3, $4, $5) b
 WHERE headwater.require_history($6)
