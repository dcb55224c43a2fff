-- headwater.list_states(namespace, projection, after_id, max_states, only_id)
-- Public: in docs/sql.md.
-- Returns the states of a projection or saga, by the id of its subscriber, in the order of their
-- ids after `after_id`; or one of them.
--   sequence   the event that made the state what it is; NULL: the program that wrote it did not
--              say,
--              as in a handler's transaction
-- Raises: WH001, WH002, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.list_states(
    namespace text, projection text, after_id text DEFAULT NULL, max_states int DEFAULT 1000, only_id text DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (id text, state jsonb, sequence bigint, updated_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(list_states.namespace, caller, 'consumer');
BEGIN
    IF coalesce(list_states.max_states NOT BETWEEN 1 AND 100000, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid max_states %s', coalesce(list_states.max_states::text, 'NULL')),
            jsonb_build_object('what', 'max_states', 'value', list_states.max_states), 'max_states is 1 to 100000');
    END IF;
    RETURN QUERY
    SELECT t.state_id, t.state, t.global_sequence, t.updated_at FROM headwater_private.states t
     WHERE t.namespace_id = ns.namespace_id AND t.owner = list_states.projection AND t.state IS NOT NULL
       -- No id is empty.
       AND t.state_id > coalesce(list_states.after_id, '')
       AND (list_states.only_id IS NULL OR t.state_id = list_states.only_id)
     ORDER BY t.state_id LIMIT list_states.max_states;
END
$$;
