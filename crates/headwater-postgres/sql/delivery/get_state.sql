-- headwater.get_state(namespace_id, owner, state_id)
-- Returns the state of an id, and its version. A row without a state reserves the place of a state
-- that is being created.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.get_state(
    namespace_id int, owner text, state_id text, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (state jsonb, version bigint) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT t.state, t.version FROM headwater_private.states t WHERE t.namespace_id = $1 AND t.owner = $2 AND t.state_id = $3;
END
$$;
