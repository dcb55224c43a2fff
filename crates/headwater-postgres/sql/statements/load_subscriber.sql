-- Where a subscriber stands, and the keys that are parked.
SELECT s.term, s.position, s.pending_gaps, s.paused,
       ARRAY(SELECT DISTINCT d.order_key FROM headwater.dead_letters d
              WHERE d.namespace_id = s.namespace_id AND d.subscriber_id = s.subscriber_id
                AND d.state IN ('dead', 'parked', 'redriving') AND (d.parks_key OR d.state = 'parked')
              ORDER BY d.order_key) AS parked_keys
  FROM headwater.subscribers s
 WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = 0
