-- Keeps the state of an id.
INSERT INTO headwater.states (namespace_id, owner, state_id, state)
VALUES ($1, $2, $3, $4)
    ON CONFLICT (namespace_id, owner, state_id) DO UPDATE SET state = excluded.state, updated_at = now()
