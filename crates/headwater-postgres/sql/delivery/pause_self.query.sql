-- Pauses a subscriber, only in its owner's term and history.
SELECT headwater.pause_self($1, $2, $3, $4, $5)
 WHERE headwater.require_history($6)
