-- Moves an import on, in the transaction that appends its events: from where it is known to be
-- ($3), or not at all.
SELECT headwater.import_advance($1, $2, $3, $4, $5, $6, $7)
