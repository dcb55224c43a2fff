-- headwater.node_statuses()
-- Lists the nodes of all namespaces that the caller may see, as operators see them. This is the
-- view headwater.node_status. A node is alive if it reported within three of its heartbeats, and
-- did not stop.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.node_statuses(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, node_id text, incarnation bigint, instance_id uuid, alive boolean, last_heartbeat_age interval, display_name text,
               description text, metadata jsonb, event_types text[], heartbeat_every interval, registered_at timestamptz,
               started_at timestamptz, last_heartbeat timestamptz, stopped_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.namespace, n.node_id, n.incarnation, n.instance_id,
           n.stopped_at IS NULL AND n.last_heartbeat >= clock_timestamp() - 3 * n.heartbeat_every,
           clock_timestamp() - n.last_heartbeat, n.display_name, n.description, n.metadata, n.event_types, n.heartbeat_every, n.registered_at,
           n.started_at, n.last_heartbeat, n.stopped_at
      FROM headwater_private.nodes n JOIN headwater_private.namespaces s ON s.namespace_id = n.namespace_id
      JOIN unnest(headwater_private.granted_to(caller, NULL)) AS g(namespace_id) ON g.namespace_id = n.namespace_id;
END
$$;
CREATE OR REPLACE VIEW headwater.node_status AS SELECT s.* FROM headwater.node_statuses() s;
