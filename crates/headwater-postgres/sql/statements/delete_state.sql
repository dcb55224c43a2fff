-- Forgets the state of an id.
DELETE FROM headwater.states WHERE namespace_id = $1 AND owner = $2 AND state_id = $3
