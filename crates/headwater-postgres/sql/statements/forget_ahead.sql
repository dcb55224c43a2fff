-- Deletes what was noted of groups that the checkpoint has passed: all of their events, and none of them is in the ledger. What partitions noted that
-- were there before a change of their number is for all of the present ones (-1), and stays until each has passed it.
SELECT headwater.forget_ahead($1, $2, $3)
