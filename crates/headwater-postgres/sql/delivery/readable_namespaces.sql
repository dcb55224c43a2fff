-- headwater.readable_namespaces()
-- Returns the namespaces in which the caller may consume. headwater.projection_states shows states
-- of these.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.readable_namespaces(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace_id int, namespace text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT n.namespace_id, n.namespace FROM headwater_private.namespaces n
      JOIN unnest(headwater_private.granted_to(caller, 'consumer')) AS g(namespace_id) ON g.namespace_id = n.namespace_id;
END
$$;
-- The states of projections and sagas, of all namespaces in which the reader may consume. The view
-- has a security barrier, so that no condition of a reader sees a row of another namespace. A
-- condition on projection and id uses the index.
CREATE OR REPLACE VIEW headwater.projection_states WITH (security_barrier) AS
SELECT n.namespace, t.owner AS projection, t.state_id AS id, t.state, t.global_sequence AS sequence, t.updated_at
  FROM headwater.readable_namespaces() n
  JOIN headwater_private.states t ON t.namespace_id = n.namespace_id
 WHERE t.state IS NOT NULL;
