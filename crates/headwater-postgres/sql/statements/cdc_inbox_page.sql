-- What came from a slot after a place, in the order of commits; and in which term of its owner, whether that has caught up.
SELECT s.term, s.caught_up, p.inbox_id, p.event
  FROM (VALUES (1)) one
  LEFT JOIN headwater.cdc_slots s ON s.namespace_id = $1
  LEFT JOIN LATERAL (SELECT i.inbox_id, i.event::text AS event FROM headwater.cdc_inbox i
                      WHERE i.namespace_id = $1 AND i.inbox_id > $2
                      ORDER BY i.inbox_id
                      LIMIT $3) p ON true
 ORDER BY p.inbox_id
