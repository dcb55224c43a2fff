-- Moves a checkpoint, in its owner's term only, and never back. The same move a second time (its answer was lost) counts nothing again:
-- settling in order moves the position, settling late shrinks the ledger, so no other move ends at the same place with the same ledger.
UPDATE headwater.subscribers s
   SET position = $4, last_event_id = coalesce($5, s.last_event_id), pending_gaps = $6,
       settled_events = s.settled_events + $7 * (s.position <> $4 OR s.pending_gaps <> $6)::int,
       settled_sum = s.settled_sum + $8::text::numeric * (s.position <> $4 OR s.pending_gaps <> $6)::int,
       late_events = s.late_events + $9 * (s.position <> $4 OR s.pending_gaps <> $6)::int,
       late_sum = s.late_sum + $10::text::numeric * (s.position <> $4 OR s.pending_gaps <> $6)::int,
       updated_at = clock_timestamp()
 WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = 0
   AND ($3::bigint IS NULL OR s.term = $3) AND s.position <= $4
