-- Moves a checkpoint, in its owner's term and history only, and never back; where the position stays, the ledger only shrinks. The same move a second time
-- (its answer was lost) counts nothing again: settling in order moves the position, settling late shrinks the ledger, so no other move
-- ends at the same place with the same ledger. An owner that gets on is alive: its lease is renewed, for its own row is what it locks while
-- keep_leases skips it.
SELECT 1 WHERE headwater.advance($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
