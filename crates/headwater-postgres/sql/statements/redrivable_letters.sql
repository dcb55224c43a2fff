-- Dead letters of a partition to deliver again now.
SELECT l.subscriber_id, l.event, l.order_key, l.state, l.parks_key, l.attempts, l.created_at, l.updated_at, l.reason
  FROM headwater.subscribers s, headwater.redrivable_letters($1, $2, $3, s.partition, s.partitions) l
 WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $4
 ORDER BY l.global_sequence
