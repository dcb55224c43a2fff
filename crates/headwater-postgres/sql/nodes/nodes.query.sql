-- Lists the nodes of a namespace, or one of them, or the nodes of all namespaces.
SELECT namespace, node_id, incarnation, instance_id, alive, extract(epoch FROM last_heartbeat_age)::float8 AS heartbeat_age, display_name,
       description, metadata, event_types, extract(epoch FROM heartbeat_every)::float8 AS heartbeat_every, registered_at, started_at,
       last_heartbeat, stopped_at
  FROM headwater.node_status
 WHERE ($1::text IS NULL OR namespace = $1) AND ($2::text IS NULL OR node_id = $2)
 ORDER BY namespace, node_id
