-- Returns the slot that a node leaves behind when it ends.
SELECT headwater.cdc_left($1, $2)
