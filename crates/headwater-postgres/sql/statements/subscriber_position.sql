-- Where a subscriber stands, a row a partition; or one of them. Of a shared one, the queue knows.
SELECT s.term, coalesce(q.position, s.position) AS position, coalesce(q.gaps, s.pending_gaps) AS pending_gaps, s.paused, s.partitions,
       s.barrier
  FROM headwater.subscribers s
  JOIN headwater.namespaces n ON n.namespace_id = s.namespace_id
  LEFT JOIN LATERAL (SELECT k.position, k.gaps FROM headwater.queue_status(n.namespace, s.subscriber_id) k
                      WHERE s.mode = 'shared') q ON true
 WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND ($3::int IS NULL OR s.partition = $3)
