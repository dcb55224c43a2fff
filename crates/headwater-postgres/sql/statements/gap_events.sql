-- What is visible in ranges of the log, as this snapshot shows it; $5 and $6 as in headwater.log_page.
-- In a history only.
SELECT * FROM headwater.gap_events($1, $2, $3, $4, $5, $6)
 WHERE headwater.require_history($7)
