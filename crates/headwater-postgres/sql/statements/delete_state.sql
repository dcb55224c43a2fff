-- Forgets the state of an id.
SELECT headwater.delete_state($1, $2, $3)
