-- headwater.put_state(namespace_id, owner, state_id, state)
-- Keeps the state of an id.
-- Raises: WH001, WH015.
CREATE OR REPLACE FUNCTION headwater.put_state(
    namespace_id int, owner text, state_id text, state jsonb, caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    INSERT INTO headwater_private.states (namespace_id, owner, state_id, state)
    VALUES ($1, $2, $3, $4)
        ON CONFLICT (namespace_id, owner, state_id) DO UPDATE SET state = excluded.state, updated_at = now();
END
$$;
