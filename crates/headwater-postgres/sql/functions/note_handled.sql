-- headwater.note_handled(namespace, node_id, incarnation, handled_types)
-- A node says which of its event_types it has handlers for, as patterns; the others are its subscribers'. Without that, it handles all of them.
-- Raises: WH001, WH002. Locks, writes: the node, if that is news.
CREATE OR REPLACE FUNCTION headwater.note_handled(namespace text, node_id text, incarnation bigint, handled_types text[])
RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ns headwater.namespaces := headwater.namespace_row(note_handled.namespace);
BEGIN
    PERFORM headwater.check_patterns(note_handled.handled_types);
    UPDATE headwater.nodes n SET handled_types = note_handled.handled_types
     WHERE n.namespace_id = ns.namespace_id AND n.node_id = note_handled.node_id AND n.incarnation = note_handled.incarnation
       AND n.handled_types IS DISTINCT FROM note_handled.handled_types;
END
$$;
