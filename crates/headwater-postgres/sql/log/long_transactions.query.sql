-- Returns the transactions of a part of the log that may have events before it, and the
-- transactions whose events are far apart, if the server is in the given history. The last row
-- holds the highest id of the part.
SELECT * FROM headwater.long_transactions($1, $2, $3, $4, $5, $6, $7, $8)
 WHERE headwater.require_history($9)
