-- headwater.cdc_status()
-- What the live sources of nodes do, as they said.
-- Raises: nothing. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.cdc_status(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, node_id text, alive boolean, mode text, state text, slot text, error text, warnings text[], received bigint, taken bigint,
               since timestamptz, reported_age double precision, receives boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.namespace, c.node_id, n.alive AND n.instance_id = c.instance_id AS alive, c.mode, c.state, c.slot, c.error, c.warnings, c.received, c.taken,
           c.since, extract(epoch FROM clock_timestamp() - c.reported_at)::float8 AS reported_age,
           coalesce(o.owner_node = c.node_id AND o.owner_instance = c.instance_id AND o.lease_until > clock_timestamp() AND c.mode = 'inbox', false)
               AS receives
      FROM headwater_private.cdc_nodes c
      JOIN headwater_private.namespaces s ON s.namespace_id = c.namespace_id
      JOIN headwater.node_statuses() n ON n.namespace = s.namespace AND n.node_id = c.node_id
      LEFT JOIN headwater_private.cdc_slots o ON o.namespace_id = c.namespace_id
     WHERE c.namespace_id = ANY (headwater_private.granted_to(caller, 'consumer'))
     ORDER BY s.namespace, c.node_id;
END
$$;
