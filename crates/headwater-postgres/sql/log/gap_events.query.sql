-- Returns what is visible in ranges of the log, as this snapshot shows it, if the server is in the
-- given history. $5 and $6 are as in headwater.log_page.
SELECT * FROM headwater.gap_events($1, $2, $3, $4, $5, $6)
 WHERE headwater.require_history($7)
