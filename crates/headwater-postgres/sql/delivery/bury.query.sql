-- Stores dead letters, only in their owner's term and history. Returns 1 if the caller was the
-- owner. bury.sql says more.
SELECT headwater.bury($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
 WHERE headwater.require_history($15)
