-- Events that wait to be due, the next one first.
SELECT event_id, stream_id, event_type, schema_version, data, key, actor_id, correlation_id, causation_id, headers, created_at,
       due_at, fire_at, failures, error
  FROM headwater.due_events
 WHERE namespace_id = $1 AND (NOT $2 OR failures > 0)
 ORDER BY fire_at, due_id
 LIMIT $3
