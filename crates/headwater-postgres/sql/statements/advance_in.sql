-- Moves a checkpoint in a transaction with effects: in its owner's term and history only, from where its writer knows it to be ($11, $12), or not at all. The
-- same move a second time must fail: the commit of the first may have been slow, and both would have their effects. The rest is as in
-- advance.sql.
SELECT 1 WHERE headwater.advance_in($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
