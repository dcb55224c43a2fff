-- headwater.forget_nodes(namespace, older_than, only_node)
-- Public: in docs/sql.md.
-- Removes nodes that are not alive and were silent for older_than, with their broadcast
-- subscribers, unless these have dead letters. Returns how many were removed. Without only_node, a
-- node that did not stop is first marked as missed. A later call removes it if it stayed silent for
-- three heartbeats since then: when the clock is set forward, all nodes look as if they had been
-- silent for long.
-- Raises: WH001, WH002. Locks: the nodes. Writes: nodes; see remove_subscriber.
CREATE OR REPLACE FUNCTION headwater.forget_nodes(namespace text, older_than interval DEFAULT '7 days', only_node text DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns       headwater_private.namespaces := headwater_private.open_namespace(forget_nodes.namespace, caller, NULL);
    at       timestamptz := clock_timestamp();
    node     text;
    listener text;
    gone     bigint := 0;
BEGIN
    PERFORM headwater_private.check_interval('older_than', forget_nodes.older_than, '0', '1000 years', 'older_than is an interval from 0 to 1000 years');
    -- A role that only produces leaves this to others: it may not remove their subscribers.
    IF NOT headwater_private.is_granted(ns.namespace_id, caller, 'consumer') THEN
        RETURN 0;
    END IF;
    IF forget_nodes.only_node IS NULL THEN
        UPDATE headwater_private.nodes n SET missed_at = at
         WHERE n.namespace_id = ns.namespace_id AND n.stopped_at IS NULL AND n.last_heartbeat < at - forget_nodes.older_than
           AND n.last_heartbeat < at - 3 * n.heartbeat_every AND (n.missed_at IS NULL OR n.missed_at > at);
    END IF;
    FOR node IN SELECT n.node_id FROM headwater_private.nodes n
                 WHERE n.namespace_id = ns.namespace_id
                   AND CASE WHEN forget_nodes.only_node IS NULL
                            THEN n.stopped_at IS NOT NULL OR n.missed_at < at - 3 * n.heartbeat_every
                            ELSE n.node_id = forget_nodes.only_node END
                   AND greatest(n.last_heartbeat, n.stopped_at) < at - forget_nodes.older_than
                   AND (n.stopped_at IS NOT NULL OR n.last_heartbeat < at - 3 * n.heartbeat_every)
                   FOR UPDATE SKIP LOCKED
    LOOP
        listener := 'broadcast:' || node;
        IF EXISTS (SELECT FROM headwater_private.subscribers s WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = listener)
           AND NOT EXISTS (SELECT FROM headwater_private.dead_letters d
                            WHERE d.namespace_id = ns.namespace_id AND d.subscriber_id = listener
                              AND d.state IN ('dead', 'parked', 'redriving')) THEN
            PERFORM headwater.remove_subscriber(forget_nodes.namespace, listener, true);
        END IF;
        DELETE FROM headwater_private.nodes n WHERE n.namespace_id = ns.namespace_id AND n.node_id = node;
        gone := gone + 1;
    END LOOP;
    RETURN gone;
END
$$;
