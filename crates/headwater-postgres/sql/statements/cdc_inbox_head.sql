-- The end of the inbox, and what becomes of the slot that fills it: whose it is, whether it can be had, whether it is read.
SELECT * FROM headwater.cdc_inbox_head($1, $2, $3)
