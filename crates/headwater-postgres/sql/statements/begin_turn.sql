-- The owner begins to handle events, in its term and history only: what became of the last one.
SELECT * FROM headwater.begin_turn($1, $2, $3, $4, $6)
 WHERE headwater.require_history($5)
