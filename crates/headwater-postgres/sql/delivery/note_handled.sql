-- headwater.note_handled(namespace, node_id, incarnation, handled_types)
-- A node records which of its event_types it has handlers for, as patterns. The others belong to
-- its subscribers. A node that does not call this handles all of them.
-- Raises: WH001, WH002, WH015. Locks, writes: the node, if the types have changed.
CREATE OR REPLACE FUNCTION headwater.note_handled(namespace text, node_id text, incarnation bigint, handled_types text[], caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(note_handled.namespace, caller, NULL);
BEGIN
    PERFORM headwater_private.check_patterns(note_handled.handled_types);
    PERFORM headwater_private.check_node(ns.namespace_id, note_handled.node_id, caller);
    UPDATE headwater_private.nodes n SET handled_types = note_handled.handled_types
     WHERE n.namespace_id = ns.namespace_id AND n.node_id = note_handled.node_id AND n.incarnation = note_handled.incarnation
       AND n.handled_types IS DISTINCT FROM note_handled.handled_types;
END
$$;
