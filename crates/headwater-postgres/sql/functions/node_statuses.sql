-- headwater.node_statuses()
-- Nodes as operators see them, of all namespaces that the caller may see; the view headwater.node_status is this. A node is alive while it was heard
-- of within three of its heartbeats, and did not stop.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.node_statuses()
RETURNS TABLE (namespace text, node_id text, incarnation bigint, instance_id uuid, alive boolean, last_heartbeat_age interval, display_name text,
               description text, metadata jsonb, event_types text[], heartbeat_every interval, registered_at timestamptz,
               started_at timestamptz, last_heartbeat timestamptz, stopped_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT s.namespace, n.node_id, n.incarnation, n.instance_id,
           n.stopped_at IS NULL AND n.last_heartbeat >= clock_timestamp() - 3 * n.heartbeat_every,
           clock_timestamp() - n.last_heartbeat, n.display_name, n.description, n.metadata, n.event_types, n.heartbeat_every, n.registered_at,
           n.started_at, n.last_heartbeat, n.stopped_at
      FROM headwater.nodes n JOIN headwater.namespaces s ON s.namespace_id = n.namespace_id
$$;
CREATE OR REPLACE VIEW headwater.node_status AS SELECT s.* FROM headwater.node_statuses() s;
