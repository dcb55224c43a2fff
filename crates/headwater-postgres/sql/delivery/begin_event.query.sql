-- Records that the owner begins an event, only in its term and history.
SELECT headwater.begin_event($1, $2, $3, $4, $6)
 WHERE headwater.require_history($5)
