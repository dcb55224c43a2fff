-- What was trimmed before subscribers, or one, had handled it, the newest first.
SELECT l.subscriber_id, l.partition, l.first_sequence, l.last_sequence, l.events, l.lost_at
  FROM headwater.losses l JOIN headwater.namespaces n ON n.namespace_id = l.namespace_id
 WHERE n.namespace = $1 AND ($2::text IS NULL OR l.subscriber_id = $2)
 ORDER BY l.last_sequence DESC, l.subscriber_id, l.partition
 LIMIT 1000
