-- Records that the owner stops handling events for now, only in its term and history.
SELECT headwater.end_turn($1, $2, $3, $4)
 WHERE headwater.require_history($5)
