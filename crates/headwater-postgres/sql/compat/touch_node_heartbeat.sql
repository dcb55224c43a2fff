-- headwater.touch_node_heartbeat(node_id)
-- Public: in docs/sql.md.
-- A node reports that it lives, in every namespace in which it is registered. It is for processes
-- that are never replaced under the same id. Other processes call headwater.heartbeat, which
-- refuses an incarnation that is over. The id may have the form that register_node was given, or
-- the form that it returned.
-- Raises: WH002, WH015, WH018 if it is registered nowhere. Locks, writes: the node.
CREATE OR REPLACE FUNCTION headwater.touch_node_heartbeat(node_id text, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    id    text := headwater_private.node_name(coalesce(touch_node_heartbeat.node_id, ''));
    there int[];
BEGIN
    -- One lookup of the nodes, whatever the number of namespaces.
    there := ARRAY(SELECT n.namespace_id FROM headwater_private.nodes n WHERE n.node_id = id INTERSECT SELECT unnest(headwater_private.granted_to(caller, NULL)));
    PERFORM headwater_private.check_node(t.namespace_id, id, caller) FROM unnest(there) AS t(namespace_id);
    UPDATE headwater_private.nodes n SET last_heartbeat = clock_timestamp(), stopped_at = NULL, missed_at = NULL
     WHERE n.node_id = id AND n.namespace_id = ANY (there);
    IF NOT FOUND THEN
        PERFORM headwater_private.node_gone(NULL, id, NULL);
    END IF;
END
$$;
