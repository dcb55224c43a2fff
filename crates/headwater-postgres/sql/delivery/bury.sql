-- headwater.bury(namespace_id, subscriber_id, term, sequences, event_ids, event_types, order_keys,
-- states, parks_keys, errors, nodes, attempts, events, partition)
-- Stores dead letters, only in their owner's term. Returns 1 if the caller was the owner. It locks
-- the subscriber's row first, so that no other owner can come in between. A letter that exists
-- already gets the attempts that it does not have yet. An event that comes again after a crash may
-- find that it parked its own key. It must not wait behind itself, so a letter that is still open
-- stays unchanged when it should be parked.
-- Raises: WH001, WH002, WH015, WH016. Locks: the rows that it writes. Writes: dead letters, the
-- subscriber.
CREATE OR REPLACE FUNCTION headwater.bury(
    namespace_id int, subscriber_id text, term bigint, sequences bigint[], event_ids uuid[], event_types text[],
    order_keys text[], states text[], parks_keys boolean[], errors text[], nodes text[], attempts text[],
    events text[], partition int, caller headwater.caller DEFAULT current_user
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    done bigint;
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    PERFORM headwater_private.require_in_log($1, u.sequence) FROM unnest($4) AS u(sequence);
    PERFORM headwater_private.check_letters($13, $12);
    WITH fenced AS (
        UPDATE headwater_private.subscribers s SET letters_epoch = s.letters_epoch + 1
         WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $14 AND ($3::bigint IS NULL OR s.term = $3)
        RETURNING s.namespace_id, s.subscriber_id, s.term
    ), buried AS (
        INSERT INTO headwater_private.dead_letters AS d (namespace_id, subscriber_id, global_sequence, event_id, event_type, order_key, state,
                                                 parks_key, error, node, attempts, event, term, created_at, updated_at)
        SELECT f.namespace_id, f.subscriber_id, l.global_sequence, l.event_id, l.event_type, l.order_key, l.state, l.parks_key, l.error,
               l.node, l.attempts::jsonb, l.event::jsonb, f.term, clock_timestamp(), clock_timestamp()
          FROM fenced f, unnest($4::bigint[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::boolean[], $10::text[], $11::text[],
                                $12::text[], $13::text[])
               AS l(global_sequence, event_id, event_type, order_key, state, parks_key, error, node, attempts, event)
        ON CONFLICT (namespace_id, subscriber_id, global_sequence, event_id) DO UPDATE
           SET state = CASE WHEN excluded.state = 'parked' AND d.state IN ('dead', 'redriving') THEN d.state ELSE excluded.state END,
               parks_key = CASE WHEN excluded.state = 'parked' AND d.state IN ('dead', 'redriving') THEN d.parks_key ELSE excluded.parks_key END,
               reason = NULL, term = excluded.term, updated_at = excluded.updated_at,
               error = CASE WHEN excluded.attempts = '[]' THEN d.error ELSE excluded.error END,
               node = CASE WHEN excluded.attempts = '[]' THEN d.node ELSE excluded.node END,
               attempts = d.attempts || (SELECT coalesce(jsonb_agg(a.attempt ORDER BY a.nth), '[]')
                                           FROM jsonb_array_elements(excluded.attempts) WITH ORDINALITY a(attempt, nth)
                                          WHERE NOT d.attempts @> jsonb_build_array(a.attempt))
    )
    SELECT count(*) INTO done FROM fenced;
    RETURN done;
END
$$;
