-- Moves a checkpoint, only in its owner's term and history, and never back. advance.sql says what
-- that means.
SELECT 1 WHERE headwater.advance($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
