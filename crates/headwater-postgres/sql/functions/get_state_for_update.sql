-- headwater.get_state_for_update(namespace_id, owner, state_id)
-- The state of an id, kept for the caller until its transaction ends.
-- Raises: WH001, WH015.
CREATE OR REPLACE FUNCTION headwater.get_state_for_update(
    namespace_id int, owner text, state_id text, caller headwater.caller DEFAULT current_user
) RETURNS SETOF jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT state FROM headwater_private.states WHERE namespace_id = $1 AND owner = $2 AND state_id = $3 FOR UPDATE;
END
$$;
