-- Finishes a claim, or some of its events, in the caller's transaction. ack_once.sql says when it
-- fails.
SELECT headwater.ack_once($1, $2, $3, $4)
