-- The groups of all namespaces, and how far they are.
SELECT g.namespace, g.subscriber_id, g.members, g.partitions, g.owned, g.resize_to, g.barrier, l."position", l.lag_events, l.lag_seconds, l.paused,
       l.dead_letters
  FROM headwater.all_groups() g
  JOIN headwater.subscriber_lag l ON l.namespace = g.namespace AND l.subscriber_id = g.subscriber_id
 ORDER BY g.namespace, g.subscriber_id
