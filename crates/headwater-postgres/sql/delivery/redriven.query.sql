-- Records that a dead letter was delivered again, only in its owner's term and history.
-- redriven.sql says what it returns.
SELECT * FROM headwater.redriven($1, $2, $3, $4, $5, $6, $7, $8)
 WHERE headwater.require_history($9)
