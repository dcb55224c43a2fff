-- Rows of the log that are no events, the first one first.
SELECT p.global_sequence, p.redelivered, p.error, p.found_at, p.redelivered_at
  FROM headwater.poison_events p
 WHERE p.namespace_id = $1 AND ($2 OR NOT p.redelivered)
 ORDER BY p.global_sequence
 LIMIT $3
