-- Notes that a dead letter was delivered again, in its owner's term and history only; answers 1 if it was, and 1 if the letter was not done with. $5: the
-- attempt, if it failed. Then what is redriven behind it in a parked key waits again.
SELECT * FROM headwater.redriven($1, $2, $3, $4, $5, $6, $7, $8)
 WHERE headwater.require_history($9)
