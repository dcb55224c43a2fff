-- What the live sources of nodes do, as they said.
SELECT s.namespace, c.node_id, n.alive AND n.instance_id = c.instance_id AS alive, c.mode, c.state, c.slot, c.error, c.warnings, c.received, c.taken,
       c.since, extract(epoch FROM clock_timestamp() - c.reported_at)::float8 AS reported_age,
       coalesce(o.owner_node = c.node_id AND o.owner_instance = c.instance_id AND o.lease_until > clock_timestamp() AND c.mode = 'inbox', false)
           AS receives
  FROM headwater.cdc_nodes c
  JOIN headwater.namespaces s ON s.namespace_id = c.namespace_id
  JOIN headwater.node_statuses() n ON n.namespace = s.namespace AND n.node_id = c.node_id
  LEFT JOIN headwater.cdc_slots o ON o.namespace_id = c.namespace_id
 ORDER BY s.namespace, c.node_id
