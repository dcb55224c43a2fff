-- Keeps dead letters, in their owner's term only; answers 1 if it was. The row of the subscriber is locked first, so that no other owner
-- can come in between. A letter that is there gets the attempts that it does not have yet. An event that comes again after a crash may find its
-- key parked by itself: it must not wait behind itself, so a letter that is not done with stays as it is when it should be parked.
WITH fenced AS (
    UPDATE headwater.subscribers s SET letters_epoch = s.letters_epoch + 1
     WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $14 AND ($3::bigint IS NULL OR s.term = $3)
    RETURNING s.namespace_id, s.subscriber_id, s.term
), buried AS (
    INSERT INTO headwater.dead_letters AS d (namespace_id, subscriber_id, global_sequence, event_id, event_type, order_key, state,
                                             parks_key, error, node, attempts, event, term, created_at, updated_at)
    SELECT f.namespace_id, f.subscriber_id, l.global_sequence, l.event_id, l.event_type, l.order_key, l.state, l.parks_key, l.error,
           l.node, l.attempts::jsonb, l.event::jsonb, f.term, clock_timestamp(), clock_timestamp()
      FROM fenced f, unnest($4::bigint[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::boolean[], $10::text[], $11::text[],
                            $12::text[], $13::text[])
           AS l(global_sequence, event_id, event_type, order_key, state, parks_key, error, node, attempts, event)
    ON CONFLICT (namespace_id, subscriber_id, global_sequence) DO UPDATE
       SET state = CASE WHEN excluded.state = 'parked' AND d.state IN ('dead', 'redriving') THEN d.state ELSE excluded.state END,
           parks_key = CASE WHEN excluded.state = 'parked' AND d.state IN ('dead', 'redriving') THEN d.parks_key ELSE excluded.parks_key END,
           reason = NULL, term = excluded.term, updated_at = excluded.updated_at,
           error = CASE WHEN excluded.attempts = '[]' THEN d.error ELSE excluded.error END,
           node = CASE WHEN excluded.attempts = '[]' THEN d.node ELSE excluded.node END,
           attempts = d.attempts || (SELECT coalesce(jsonb_agg(a.attempt ORDER BY a.nth), '[]')
                                       FROM jsonb_array_elements(excluded.attempts) WITH ORDINALITY a(attempt, nth)
                                      WHERE NOT d.attempts @> jsonb_build_array(a.attempt))
)
SELECT count(*) FROM fenced
