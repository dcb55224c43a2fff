-- Releases the slot.
SELECT headwater.cdc_release($1, $2)
