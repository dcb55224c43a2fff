-- headwater_private.take_retry(retry, one, types, likes, room, taken)
-- Takes up to `room` events of a retry for a claim, which is made like `one` and returned. It takes
-- events of `types`, or of types like one of `likes` if that is not NULL. Both NULL: of all types.
-- The rest of the retry stays. Events that the log no longer has are dropped, and so are letters
-- that were discarded, or that failed in another claim, in the meantime. `taken` says whether the
-- claim has events. The caller holds the queue's lock.
-- Raises: nothing. Locks: letters. Writes: the retry, letters.
CREATE OR REPLACE FUNCTION headwater_private.take_retry(
    retry headwater_private.retries, INOUT one headwater_private.claims, types text[], likes text[], room int, OUT taken boolean
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    any_type   constant boolean := types IS NULL AND likes IS NULL;
    left_      bigint[];
    left_types text[];
BEGIN
    IF retry.of_letter THEN
        UPDATE headwater_private.dead_letters d SET queued = false
         WHERE d.namespace_id = retry.namespace_id AND d.subscriber_id = retry.subscriber_id
           AND d.global_sequence = ANY (retry.sequences) AND d.queued AND d.state <> 'redriving';
    END IF;
    WITH present AS (
        SELECT e.global_sequence, e.event_type, w.wanted,
               row_number() OVER (PARTITION BY w.wanted ORDER BY e.global_sequence) <= room AND w.wanted AS is_taken
          FROM headwater_private.claimed_events(retry.namespace_id, retry.sequences[1], retry.sequences[cardinality(retry.sequences)], NULL,
                                        retry.sequences) e
         CROSS JOIN LATERAL (SELECT any_type OR CASE WHEN likes IS NULL THEN e.event_type = ANY (types) ELSE e.event_type LIKE ANY (likes) END
                                    AS wanted) w
         WHERE NOT retry.of_letter OR EXISTS (
                SELECT FROM headwater_private.dead_letters d
                 WHERE d.namespace_id = retry.namespace_id AND d.subscriber_id = retry.subscriber_id
                   AND d.global_sequence = e.global_sequence AND d.queued)
    )
    SELECT coalesce(array_agg(p.global_sequence ORDER BY p.global_sequence) FILTER (WHERE p.is_taken), '{}'),
           array_agg(p.global_sequence ORDER BY p.global_sequence) FILTER (WHERE NOT p.is_taken),
           array_agg(DISTINCT p.event_type) FILTER (WHERE NOT p.is_taken)
      INTO one.sequences, left_, left_types FROM present p;
    IF left_ IS NULL THEN
        DELETE FROM headwater_private.retries r
         WHERE r.namespace_id = retry.namespace_id AND r.subscriber_id = retry.subscriber_id AND r.number = retry.number;
    ELSE
        UPDATE headwater_private.retries r SET sequences = left_, event_types = left_types
         WHERE r.namespace_id = retry.namespace_id AND r.subscriber_id = retry.subscriber_id AND r.number = retry.number;
    END IF;
    taken := cardinality(one.sequences) > 0;
    one.first_sequence := one.sequences[1];
    one.last_sequence := one.sequences[cardinality(one.sequences)];
    one.attempts := retry.attempts + 1;
    one.uncounted := retry.uncounted;
    one.suspect := retry.suspect;
    one.failures := retry.failures;
    one.of_letter := retry.of_letter;
    one.number := nextval('headwater_private.claim_numbers');
    one.claim_id := gen_random_uuid();
END
$$;
