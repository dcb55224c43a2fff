-- headwater.touch_node_heartbeat(node_id)
-- Public: in docs/sql.md.
-- A node says that it lives, in every namespace in which it is registered: for processes that are not replaced under one id. Those that may
-- be call headwater.heartbeat, which refuses an incarnation that is over.
-- Raises: WH018 if it is registered nowhere. Locks, writes: the node.
CREATE OR REPLACE FUNCTION headwater.touch_node_heartbeat(node_id text)
RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE headwater.nodes n SET last_heartbeat = clock_timestamp(), stopped_at = NULL WHERE n.node_id = touch_node_heartbeat.node_id;
    IF NOT FOUND THEN
        PERFORM headwater.node_gone(NULL, touch_node_heartbeat.node_id, NULL);
    END IF;
END
$$;
