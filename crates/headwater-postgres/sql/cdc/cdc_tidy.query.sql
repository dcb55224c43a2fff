-- Marks what was dispatched, and removes what is old.
SELECT headwater.cdc_tidy($1, $2, $3, $4, $5 * interval '1 second')
