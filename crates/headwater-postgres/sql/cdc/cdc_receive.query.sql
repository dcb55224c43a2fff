-- Stores what came from a slot, if the server is in the given history.
SELECT headwater.cdc_receive($1, $2, $3, $4::text[]::pg_lsn[], $5, $6, $7, $8)
 WHERE headwater.require_history($9)
