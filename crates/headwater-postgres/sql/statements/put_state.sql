-- Keeps the state of an id.
SELECT headwater.put_state($1, $2, $3, $4)
