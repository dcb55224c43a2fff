-- Stores the dead letters of another event bus.
SELECT * FROM headwater.import_letters($1, $2, $3, $4, $5, $6, $7)
