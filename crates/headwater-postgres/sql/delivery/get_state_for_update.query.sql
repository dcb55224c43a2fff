-- Reads the state of an id, and locks it until the transaction ends.
SELECT headwater.get_state_for_update($1, $2, $3)
