-- The state of an id, kept for the caller until its transaction ends.
SELECT headwater.get_state_for_update($1, $2, $3)
