-- Keeps dead letters, in their owner's term and history only; answers 1 if it was. The row of the subscriber is locked first, so that no other owner
-- can come in between. A letter that is there gets the attempts that it does not have yet. An event that comes again after a crash may find its
-- key parked by itself: it must not wait behind itself, so a letter that is not done with stays as it is when it should be parked.
SELECT headwater.bury($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
 WHERE headwater.require_history($15)
