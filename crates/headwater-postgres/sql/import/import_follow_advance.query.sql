-- Moves an import that follows its table on by one batch, in the transaction that appends the
-- batch's events.
SELECT headwater.import_follow_advance($1, $2, $3, $4, $5, $6, $7, $8, $9)
