-- Pauses a subscriber, in its owner's term only.
SELECT headwater.pause_self($1, $2, $3, $4, $5)
