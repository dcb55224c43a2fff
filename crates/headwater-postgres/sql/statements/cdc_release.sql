-- Gives the slot up.
SELECT headwater.cdc_release($1, $2)
