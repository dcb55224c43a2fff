-- The state of an id.
SELECT state FROM headwater.states WHERE namespace_id = $1 AND owner = $2 AND state_id = $3
