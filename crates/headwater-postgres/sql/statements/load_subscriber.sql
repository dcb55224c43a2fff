-- Where a subscriber stands, in a history only, the keys that are parked, and the events that have a letter though the checkpoint has not passed them (they are
-- above the position, or in the ledger): whatever became of the letter, but for one that was handled before the last reset, which asked for
-- it to be handled again. With them, the events of groups that were settled ahead of the checkpoint, by this partition, or behind the barrier by those that
-- were there before their number was changed (-1). And how often the log was repaired: what was read of it before counts no more.
-- With all of its ledger, in the same snapshot.
SELECT * FROM headwater.load_subscriber($1, $2, $3), headwater.ledger_chunks($1, $2, $3)
 WHERE headwater.require_history($4)
