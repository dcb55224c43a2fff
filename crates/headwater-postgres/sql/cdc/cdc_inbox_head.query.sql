-- Returns the end of the inbox, and the state of the slot that fills it: its owner, whether it can
-- be taken, whether it is read.
SELECT * FROM headwater.cdc_inbox_head($1, $2, $3)
