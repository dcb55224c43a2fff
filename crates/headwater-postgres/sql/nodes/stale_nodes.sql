-- headwater.stale_nodes(namespace_id)
-- Lists the nodes of a namespace that did not stop, and were silent for five of their heartbeats.
-- Where no nodes are registered, the list is empty.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.stale_nodes(namespace_id int, caller headwater.caller DEFAULT current_user)
RETURNS text[] LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stale text[] := '{}';
BEGIN
    PERFORM headwater_private.authorize(stale_nodes.namespace_id, caller, NULL);
    IF to_regclass('headwater_private.nodes') IS NOT NULL THEN
        EXECUTE 'SELECT coalesce(array_agg(n.node_id ORDER BY n.node_id), ''{}'') FROM headwater_private.nodes n
                  WHERE n.namespace_id = $1 AND n.stopped_at IS NULL AND n.last_heartbeat < clock_timestamp() - 5 * n.heartbeat_every'
           INTO stale USING stale_nodes.namespace_id;
    END IF;
    RETURN stale;
END
$$;
