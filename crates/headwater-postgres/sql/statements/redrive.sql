-- Asks for dead letters to be delivered again.
SELECT headwater.redrive($1, $2, $3, $4, $5, $6, $7, $8)
