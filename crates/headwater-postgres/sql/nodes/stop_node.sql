-- headwater.stop_node(namespace, node_id, incarnation)
-- Public: in docs/sql.md.
-- A node reports that it ends: it no longer counts as alive. Returns whether it was this
-- incarnation; a newer one is left alone.
-- Raises: WH001, WH015. Locks, writes: the node.
CREATE OR REPLACE FUNCTION headwater.stop_node(namespace text, node_id text, incarnation bigint, caller headwater.caller DEFAULT current_user)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(stop_node.namespace, caller, NULL);
BEGIN
    PERFORM headwater_private.check_node(ns.namespace_id, stop_node.node_id, caller);
    UPDATE headwater_private.nodes n SET stopped_at = clock_timestamp()
     WHERE n.namespace_id = ns.namespace_id AND n.node_id = stop_node.node_id AND n.incarnation = stop_node.incarnation;
    RETURN FOUND;
END
$$;
