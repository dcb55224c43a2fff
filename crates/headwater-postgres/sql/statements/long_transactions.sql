-- The transactions of a part of the log that may have events before it, and those whose events are far apart; the last row tells the highest id of the part.
-- In a history only.
SELECT * FROM headwater.long_transactions($1, $2, $3, $4, $5, $6, $7, $8)
 WHERE headwater.require_history($9)
