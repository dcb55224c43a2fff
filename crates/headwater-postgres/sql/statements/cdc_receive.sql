-- Stores what came from a slot.
SELECT headwater.cdc_receive($1, $2, $3::text[]::pg_lsn[], $4, $5, $6, $7)
