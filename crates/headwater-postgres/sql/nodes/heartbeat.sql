-- headwater.heartbeat(namespace, node_id, incarnation, event_types)
-- Public: in docs/sql.md.
-- A node reports that it lives, and which event types it handles (NULL: unchanged).
-- Raises: WH001, WH002, WH015, WH018 if this is no longer the node's incarnation, or the node was
-- removed. Locks, writes: the node.
CREATE OR REPLACE FUNCTION headwater.heartbeat(namespace text, node_id text, incarnation bigint, event_types text[] DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(heartbeat.namespace, caller, NULL);
BEGIN
    PERFORM headwater_private.check_patterns(heartbeat.event_types);
    PERFORM headwater_private.check_node(ns.namespace_id, heartbeat.node_id, caller);
    UPDATE headwater_private.nodes n
       SET last_heartbeat = clock_timestamp(), stopped_at = NULL, missed_at = NULL, event_types = coalesce(heartbeat.event_types, n.event_types)
     WHERE n.namespace_id = ns.namespace_id AND n.node_id = heartbeat.node_id AND n.incarnation = heartbeat.incarnation;
    IF NOT FOUND THEN
        PERFORM headwater_private.node_gone(ns.namespace_id, heartbeat.node_id, heartbeat.incarnation);
    END IF;
END
$$;
