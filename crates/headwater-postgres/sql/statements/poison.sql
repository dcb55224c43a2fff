-- Rows of the log that are no events, the first one first.
SELECT * FROM headwater.poison($1, $2, $3)
