-- Moves a checkpoint in a transaction with effects: in its owner's term only, from where its writer knows it to be ($11, $12), or not at all. The
-- same move a second time must fail: the commit of the first may have been slow, and both would have their effects. The rest is as in
-- advance.sql.
UPDATE headwater.subscribers s
   SET position = $4, last_event_id = coalesce($5, s.last_event_id), pending_gaps = $6,
       settled_events = s.settled_events + $7, settled_sum = s.settled_sum + $8::text::numeric,
       late_events = s.late_events + $9, late_sum = s.late_sum + $10::text::numeric,
       lease_until = CASE WHEN $3 IS NULL THEN s.lease_until ELSE greatest(s.lease_until, clock_timestamp() + s.lease) END,
       updated_at = clock_timestamp()
 WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $13
   AND ($3::bigint IS NULL OR s.term = $3) AND s.position = $11 AND s.pending_gaps = $12 AND s.position <= $4
   AND (s.barrier IS NULL OR $4 <= s.barrier)
