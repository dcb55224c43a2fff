-- What came from a slot after a place, in the order of commits.
SELECT i.inbox_id, i.global_sequence, i.event::text AS event, i.error
  FROM headwater.cdc_inbox i
 WHERE i.namespace_id = $1 AND i.inbox_id > $2
 ORDER BY i.inbox_id
 LIMIT $3
