-- Moves a checkpoint in a transaction with effects, only in its owner's term and history, and only
-- from where its writer knows it to be ($11, $12). advance_in.sql says why.
SELECT 1 WHERE headwater.advance_in($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
