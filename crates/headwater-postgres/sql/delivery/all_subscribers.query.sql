-- Lists the subscribers of all namespaces in which the caller may consume.
SELECT l.namespace, s.subscriber_id, s.mode, s.partitions, s.position, s.last_event_id, s.pending_gaps, s.owner_node, s.owner_incarnation, s.term,
       extract(epoch FROM s.lease_left)::float8 AS lease_left, s.report, s.paused, s.pause_reason, s.lag_events, extract(epoch FROM s.lag)::float8 AS lag,
       s.dead_letters, s.created_at, s.updated_at
  FROM (SELECT DISTINCT namespace FROM headwater.subscriber_lag) l
 CROSS JOIN LATERAL headwater.subscriber_status(l.namespace) s
 ORDER BY l.namespace, s.subscriber_id
