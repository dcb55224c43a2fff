-- The state of an id.
SELECT headwater.get_state($1, $2, $3)
