-- Pauses a subscriber, in its owner's term only.
UPDATE headwater.subscribers
   SET paused = true, pause_reason = $4, report = jsonb_build_object('state', 'paused', 'detail', $4::text, 'rate', 0.0)
 WHERE namespace_id = $1 AND subscriber_id = $2 AND partition = $5 AND ($3::bigint IS NULL OR term = $3)
