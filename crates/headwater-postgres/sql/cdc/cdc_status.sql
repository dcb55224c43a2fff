-- headwater.cdc_status()
-- Lists what the live sources of nodes do: as they reported, unless it is visible that this is
-- over. A node that was silent for three heartbeats is gone. A node that streams from a slot that
-- nobody reads, or has not reported again since the slot got its present reader, was interrupted:
-- it will report that, or never report again.
-- Raises: nothing. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.cdc_status(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, node_id text, alive boolean, mode text, state text, slot text, error text, warnings text[], received bigint, taken bigint,
               since timestamptz, reported_age double precision, heard_age double precision, receives boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.namespace, c.node_id, a.alive, c.mode,
           CASE WHEN NOT a.alive THEN 'gone'
                WHEN c.state = 'streaming' AND (NOT EXISTS (SELECT FROM pg_replication_slots r WHERE r.slot_name = c.slot AND r.active)
                                                OR c.mode = 'inbox' AND c.reported_at < o.begun_at) THEN 'interrupted'
                ELSE c.state END AS state,
           c.slot, c.error, c.warnings, c.received, c.taken, c.since, extract(epoch FROM clock_timestamp() - c.reported_at)::float8 AS reported_age,
           extract(epoch FROM n.last_heartbeat_age)::float8 AS heard_age,
           a.alive AND coalesce(o.owner_node = c.node_id AND o.owner_instance = c.instance_id AND o.lease_until > clock_timestamp() AND c.mode = 'inbox', false)
               AS receives
      FROM headwater_private.cdc_nodes c
      JOIN headwater_private.namespaces s ON s.namespace_id = c.namespace_id
      JOIN headwater.node_statuses() n ON n.namespace = s.namespace AND n.node_id = c.node_id
     CROSS JOIN LATERAL (SELECT n.alive AND n.instance_id = c.instance_id AS alive) a
      LEFT JOIN headwater_private.cdc_slots o ON o.namespace_id = c.namespace_id
      JOIN unnest(headwater_private.granted_to(caller, 'consumer')) AS g(namespace_id) ON g.namespace_id = c.namespace_id
     ORDER BY s.namespace, c.node_id;
END
$$;
