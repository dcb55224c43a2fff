-- headwater.stop_node(namespace, node_id, incarnation)
-- Public: in docs/sql.md.
-- A node says that it ends: it counts as alive no more. Answers whether it was this incarnation; a newer one is left alone.
-- Raises: WH001. Locks, writes: the node.
CREATE OR REPLACE FUNCTION headwater.stop_node(namespace text, node_id text, incarnation bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ns headwater.namespaces := headwater.namespace_row(stop_node.namespace);
BEGIN
    UPDATE headwater.nodes n SET stopped_at = clock_timestamp()
     WHERE n.namespace_id = ns.namespace_id AND n.node_id = stop_node.node_id AND n.incarnation = stop_node.incarnation;
    RETURN FOUND;
END
$$;
