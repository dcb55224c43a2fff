-- Trims a month of the log.
SELECT events, losers FROM headwater.trim_month($1, $2, $3)
