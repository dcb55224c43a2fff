-- Writes down that an event is begun, in its owner's term and history only.
SELECT headwater.begin_event($1, $2, $3, $4, $6)
 WHERE headwater.require_history($5)
