-- States of a projection or saga, in the order of their ids.
SELECT id, state, sequence, updated_at FROM headwater.list_states($1, $2, $3, $4, $5)
