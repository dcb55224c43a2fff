-- Stores an event until it is due.
SELECT appended, soon FROM headwater.store_due($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
