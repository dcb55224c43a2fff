-- Ends the session that still reads the slot.
SELECT headwater.cdc_evict($1, $2, $3)
