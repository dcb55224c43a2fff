-- headwater.get_state_for_update(namespace_id, owner, state_id)
-- Returns the state of an id, and locks it until the caller's transaction ends. This also works if
-- there is no state yet (NULL): the next caller waits.
-- Raises: WH001, WH015. Locks: the state's row. Writes: states (a row without a state, if there is
-- none).
CREATE OR REPLACE FUNCTION headwater.get_state_for_update(
    namespace_id int, owner text, state_id text, caller headwater.caller DEFAULT current_user
) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    present jsonb;
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    LOOP
        SELECT t.state INTO present FROM headwater_private.states t
         WHERE t.namespace_id = $1 AND t.owner = $2 AND t.state_id = $3
           FOR UPDATE;
        IF FOUND THEN
            RETURN present;
        END IF;
        -- A row that does not exist cannot be locked, so this creates it. If another transaction
        -- creates it at the same time, this waits for that transaction to end, and looks again.
        INSERT INTO headwater_private.states (namespace_id, owner, state_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
    END LOOP;
END
$$;
