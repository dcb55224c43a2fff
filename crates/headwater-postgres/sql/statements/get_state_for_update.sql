-- The state of an id, kept for the caller until its transaction ends.
SELECT state FROM headwater.states WHERE namespace_id = $1 AND owner = $2 AND state_id = $3 FOR UPDATE
