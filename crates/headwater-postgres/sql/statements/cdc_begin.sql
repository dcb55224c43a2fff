-- Says who reads a namespace's slot.
SELECT headwater.cdc_begin($1, $2, $3, $4, $5)
