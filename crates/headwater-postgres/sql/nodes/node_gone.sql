-- headwater_private.node_gone(namespace_id, node_id, incarnation)
-- Refuses an incarnation of a node, and says why.
-- Raises: WH018, always. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.node_gone(namespace_id int, node_id text, incarnation bigint)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    there bigint;
BEGIN
    SELECT n.incarnation INTO there FROM headwater_private.nodes n
     WHERE n.namespace_id = node_gone.namespace_id AND n.node_id = node_gone.node_id;
    PERFORM headwater_private.fail('WH018',
        CASE WHEN there IS NULL THEN format('node %L is not registered', left(node_gone.node_id, 80))
             ELSE format('node %L is incarnation %s by now, not %s', left(node_gone.node_id, 80), there,
                         coalesce(node_gone.incarnation::text, 'NULL')) END,
        jsonb_build_object('node_id', left(node_gone.node_id, 80), 'incarnation', node_gone.incarnation, 'current', there),
        CASE WHEN there IS NULL THEN 'register it: SELECT * FROM headwater.register_node(''namespace'', ''node_id'')'
             ELSE 'another process has registered under the same node_id: stop this one, or give it an id of its own' END);
END
$$;
