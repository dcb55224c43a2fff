-- Records that the owner begins to handle events, only in its term and history. Returns how the
-- last turn ended.
SELECT * FROM headwater.begin_turn($1, $2, $3, $4, $6)
 WHERE headwater.require_history($5)
