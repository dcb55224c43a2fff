-- Ends the session that reads the slot still.
SELECT headwater.cdc_evict($1, $2, $3)
