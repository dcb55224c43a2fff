-- Asks to deliver dead letters again.
SELECT headwater.redrive($1, $2, $3, $4, $5, $6, $7, $8)
