-- Reads the state of an id, and its version.
SELECT state, version FROM headwater.get_state($1, $2, $3)
