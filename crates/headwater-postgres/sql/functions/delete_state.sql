-- headwater.delete_state(namespace_id, owner, state_id)
-- Forgets the state of an id.
-- Raises: WH001, WH015.
CREATE OR REPLACE FUNCTION headwater.delete_state(
    namespace_id int, owner text, state_id text, caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    DELETE FROM headwater_private.states WHERE namespace_id = $1 AND owner = $2 AND state_id = $3;
END
$$;
