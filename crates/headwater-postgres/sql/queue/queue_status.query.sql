-- Lists the queues of shared subscribers, or one of them.
SELECT $1 AS namespace, q.subscriber_id, q.position, s.lag_events AS waiting, extract(epoch FROM s.lag)::float8 AS oldest_waiting, q.claims, q.in_flight,
       q.retries, q.left_behind, s.dead_letters, q.event_types, q.workers, q.rate, s.paused
  FROM headwater.queue_status($1, $2) q CROSS JOIN LATERAL headwater.subscriber_status($1, q.subscriber_id) s
 ORDER BY q.subscriber_id
