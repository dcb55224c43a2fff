-- headwater.claim(namespace, subscriber_id, max_events, visibility, event_types, worker,
-- max_attempts, acks, per_claim, max_scan, with_events)
-- Public: in docs/sql.md.
-- Claims up to max_events events of a shared subscriber, and returns them. Nobody else gets these
-- events until the claim expires: after `visibility`, unless it is extended. Events that failed or
-- expired before come first, then events that others left behind, then new events of the log.
-- Finish each event with headwater.ack, or hand it back with headwater.nack, by its claim_id:
-- events that were claimed together share one claim_id. redelivery_count is 0 for the first
-- delivery.
--   event_types    only these types, in which * stands for any characters (NULL or *: all types
--                  that the queue takes). Events of other types are left for other workers. A type
--                  that the queue does not take (see register_subscriber) cannot be asked for: the
--                  claim that passes its events settles them.
--   max_attempts   an event that fails after this many deliveries is not delivered again: it
--                  becomes a dead letter
--   acks           claims that are done: they are acked before anything else, all or none
--   per_claim      at most how many events one claim holds, so that several claims can be worked on
--                  side by side (NULL: all of them)
--   max_scan       about how many events the call may look through (NULL: all)
--   with_events    false: returns one row per claim, with NULL in the columns of the event. Read
--                  the events with headwater.read_claims after the commit: then other workers claim
--                  while you read.
-- A claim of only some types that has found three quarters of max_events does not look for the
-- rest.
-- No rows: there is nothing to claim now, up to the end of the log. If nothing was found in
-- max_scan events, the result is one row in which every column is NULL. How far the call has looked
-- is recorded, so claim again.
-- A paused subscriber gets nothing. Until the caller's transaction ends, nobody else claims events
-- of this subscriber.
-- Raises: WH001, WH002, WH006, WH012, WH013 if the subscriber is not shared, WH014 if one of the
-- acks is lost. Locks: the queue. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater.claim(
    namespace     text,
    subscriber_id text,
    max_events    int DEFAULT 10,
    visibility    interval DEFAULT '30 s',
    event_types   text[] DEFAULT NULL,
    worker        text DEFAULT NULL,
    max_attempts  int DEFAULT 4,
    acks          uuid[] DEFAULT NULL,
    per_claim     int DEFAULT NULL,
    max_scan      bigint DEFAULT 1000000,
    with_events   boolean DEFAULT true,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (claim_id uuid, redelivery_count int, global_sequence bigint, stream_version bigint, transaction_id bigint,
                 created_at timestamptz, recorded_at timestamptz, namespace_id int, schema_version int, event_id uuid, correlation_id uuid,
                 causation_id uuid, event_type text, stream_id text, key text, actor_id text, headers jsonb, data jsonb)
-- A plan that was made while the tables were empty must not scan them later. And planning each call
-- anew costs more than everything else here.
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    types     text[] := claim.event_types;
    -- The types as LIKE patterns, if one of them holds a *.
    likes     text[];
    step      record;
    one       headwater_private.claims;
    next_     headwater_private.claims;
    nth       int := 1;
    claim_ids uuid[];
    firsts    bigint[];
BEGIN
    -- Usually all arguments are valid. Then they are not checked one by one.
    IF (claim.max_events BETWEEN 1 AND 100000 AND claim.visibility > interval '0' AND claim.visibility <= interval '30 days'
        AND extract(year FROM claim.visibility) = 0 AND extract(day FROM claim.visibility) BETWEEN -1000 AND 1000
        AND claim.max_attempts >= 1 AND coalesce(claim.per_claim >= 1, true) AND coalesce(claim.max_scan >= 1, true)
        AND coalesce(octet_length(claim.worker) BETWEEN 1 AND 255 AND claim.worker !~ E'[\\x01-\\x1f\\x7f]', true)
        AND current_setting('transaction_isolation') = 'read committed' AND NOT pg_is_in_recovery()
        AND (types IS NULL OR array_ndims(types) = 1 AND array_position(types, NULL) IS NULL AND array_position(types, '') IS NULL
             AND octet_length(array_to_string(types, '')) <= 255 AND array_to_string(types, '') !~ E'[\\x01-\\x1f\\x7f]')) IS NOT TRUE THEN
        PERFORM headwater_private.open_namespace(claim.namespace, caller, 'consumer');
        PERFORM headwater_private.check_per_claim(claim.per_claim);
        PERFORM headwater_private.check_max_events(claim.max_events);
        PERFORM headwater_private.check_visibility(claim.visibility);
        PERFORM headwater_private.check_claim(types, claim.worker, claim.max_attempts, claim.max_scan);
        PERFORM headwater_private.check_patterns(types);
        PERFORM headwater_private.require_proof();
    END IF;
    IF types IS NOT NULL AND position('*' IN array_to_string(types, '')) > 0 THEN
        IF '*' = ANY (types) THEN
            types := NULL;
        ELSE
            likes := headwater_private.as_likes(types);
        END IF;
    END IF;
    step := headwater_private.take_claims(claim.namespace, claim.subscriber_id, claim.max_events, claim.visibility, types, likes, claim.worker,
                claim.max_attempts, claim.acks, claim.per_claim, claim.max_scan, false, caller);
    -- Read the events in statements of their own, which see everything that the claim saw.
    IF step.claim_id IS NOT NULL THEN
        IF claim.with_events IS FALSE THEN
            claim_id := step.claim_id;
            redelivery_count := 0;
            RETURN NEXT;
            RETURN;
        ELSIF step.one_table THEN
            RETURN QUERY SELECT step.claim_id, 0, e.* FROM headwater_private.tail_events() e
                          WHERE e.namespace_id = step.namespace_id AND e.global_sequence BETWEEN step.first_sequence AND step.last_sequence
                            AND (step.of_types IS NULL OR e.event_type = ANY (step.of_types))
                          ORDER BY e.global_sequence;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
        RETURN QUERY SELECT step.claim_id, 0, e.*
                       FROM headwater_private.claimed_events(step.namespace_id, step.first_sequence, step.last_sequence, step.of_types, NULL) e;
        RETURN;
    ELSIF step.more THEN
        RETURN NEXT;
    ELSIF claim.with_events IS FALSE THEN
        RETURN QUERY SELECT m.claim_id, m.attempts - 1 + m.uncounted, NULL::bigint, NULL::bigint, NULL::bigint, NULL::timestamptz, NULL::timestamptz,
                            NULL::int, NULL::int, NULL::uuid, NULL::uuid, NULL::uuid, NULL::text, NULL::text, NULL::text, NULL::text, NULL::jsonb,
                            NULL::jsonb
                       FROM unnest(step.made) m;
        RETURN;
    END IF;
    WHILE nth <= cardinality(step.made) LOOP
        one := step.made[nth];
        nth := nth + 1;
        IF one.sequences IS NOT NULL THEN
            RETURN QUERY SELECT one.claim_id, one.attempts - 1 + one.uncounted, e.*
                           FROM headwater_private.claimed_events(step.namespace_id, one.first_sequence, one.last_sequence, NULL, one.sequences) e;
            CONTINUE;
        END IF;
        claim_ids := ARRAY[one.claim_id];
        firsts := ARRAY[one.first_sequence];
        -- Claims of one range follow each other, so read them in one go.
        WHILE nth <= cardinality(step.made) LOOP
            next_ := step.made[nth];
            EXIT WHEN next_.sequences IS NOT NULL OR nth = step.new_from;
            claim_ids := claim_ids || next_.claim_id;
            firsts := firsts || next_.first_sequence;
            one.last_sequence := next_.last_sequence;
            nth := nth + 1;
        END LOOP;
        IF one.one_table THEN
            RETURN QUERY SELECT claim_ids[width_bucket(e.global_sequence, firsts)], 0, e.* FROM headwater_private.tail_events() e
                          WHERE e.namespace_id = step.namespace_id AND e.global_sequence BETWEEN one.first_sequence AND one.last_sequence
                            AND (one.event_types IS NULL OR e.event_type = ANY (one.event_types))
                          ORDER BY e.global_sequence;
            CONTINUE WHEN FOUND;
        END IF;
        RETURN QUERY SELECT claim_ids[width_bucket(e.global_sequence, firsts)], 0, e.*
                       FROM headwater_private.claimed_events(step.namespace_id, one.first_sequence, one.last_sequence, one.event_types, NULL) e;
    END LOOP;
END
$$;
