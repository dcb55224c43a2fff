-- Keeps the state of an id, or deletes it.
SELECT headwater.put_state($1, $2, $3, $4, $5, $6, $7, $8)
