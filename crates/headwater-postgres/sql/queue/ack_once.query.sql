-- Finishes a claim, or some of its events, in a transaction of the caller's.
SELECT headwater.ack_once($1, $2, $3, $4)
