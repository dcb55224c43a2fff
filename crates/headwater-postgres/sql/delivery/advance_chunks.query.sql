-- Moves a checkpoint as advance.sql and advance_in.sql do, when chunks of a long ledger change.
SELECT 1 WHERE headwater.advance_chunks($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
