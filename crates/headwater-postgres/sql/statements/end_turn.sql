-- The owner handles no more events for now, in its term and history only.
SELECT headwater.end_turn($1, $2, $3, $4)
 WHERE headwater.require_history($5)
