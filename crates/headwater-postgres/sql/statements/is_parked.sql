-- Whether events of a key wait: behind a letter that parks it, or a parked one, as in load_subscriber.sql.
SELECT s.term, EXISTS (SELECT FROM headwater.dead_letters d
                        WHERE d.namespace_id = s.namespace_id AND d.subscriber_id = s.subscriber_id AND d.order_key = $3
                          AND d.state IN ('dead', 'parked', 'redriving') AND (d.parks_key OR d.state = 'parked')) AS is_parked
  FROM headwater.subscribers s
 WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $4
