-- headwater.claim_matching(namespace, subscriber_id, max_events, visibility, patterns, worker, max_attempts, acks, per_claim)
-- Public: in docs/sql.md.
-- As headwater.claim, for event types that are given as patterns, in which * stands for any characters. Types are looked up where the queue looks
-- for events: what others left behind, what is to be delivered again, letters that are redriven, and what comes next in the log. Further on, a type that none of these
-- has is left behind, and found there by the next claim.
-- Raises: WH001, WH002, WH006, WH012, WH013, WH014. Locks: the queue. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater.claim_matching(
    namespace     text,
    subscriber_id text,
    max_events    int,
    visibility    interval,
    patterns      text[],
    worker        text DEFAULT NULL,
    max_attempts  int DEFAULT 4,
    acks          uuid[] DEFAULT NULL,
    per_claim     int DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (claim_id uuid, redelivery_count int, global_sequence bigint, stream_version bigint, transaction_id bigint,
                 created_at timestamptz, recorded_at timestamptz, namespace_id int, schema_version int, event_id uuid, correlation_id uuid,
                 causation_id uuid, event_type text, stream_id text, key text, actor_id text, headers jsonb, data jsonb)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns       headwater_private.namespaces := headwater_private.open_namespace(claim_matching.namespace, caller, 'consumer');
    wild     boolean := EXISTS (SELECT FROM unnest(claim_matching.patterns) AS p(pattern) WHERE p.pattern LIKE '%*%');
    ahead    record;
    ahead_of int := least(greatest(4 * claim_matching.max_events::bigint, 200), 10000);
    bounds   record;
    run      record;
    newest   headwater_private.queue_state;
    frontier bigint;
    types    text[];
BEGIN
    PERFORM headwater_private.check_max_events(claim_matching.max_events);
    PERFORM headwater_private.check_per_claim(claim_matching.per_claim);
    PERFORM headwater_private.check_patterns(claim_matching.patterns);
    IF '*' = ANY (claim_matching.patterns) THEN
        RETURN QUERY SELECT * FROM headwater.claim(claim_matching.namespace, claim_matching.subscriber_id, claim_matching.max_events,
            claim_matching.visibility, NULL, claim_matching.worker, claim_matching.max_attempts, NULL, claim_matching.acks,
            claim_matching.per_claim);
        RETURN;
    END IF;
    PERFORM headwater_private.lock_queue(ns.namespace_id, claim_matching.subscriber_id);
    -- Most often the next events of the log are wanted, or there are none: then they are claimed as a run. Nobody else claims meanwhile, and
    -- between events that follow each other nothing appears.
    SELECT count(p.place) AS events, coalesce(min(p.place) FILTER (WHERE NOT p.fits) - 1, count(p.place))::int AS wanted,
           bool_and(n.frontier >= ns.tail_after AND n.moment < n.look_at) AS calm
      INTO ahead
      FROM headwater_private.newest_state(ns.namespace_id, claim_matching.subscriber_id) n
      LEFT JOIN LATERAL (
          SELECT e.place, e.global_sequence = n.frontier + e.place
                          AND (e.event_type = ANY (claim_matching.patterns)
                               OR wild AND headwater_private.matches_pattern(e.event_type, claim_matching.patterns)) AS fits
            FROM (SELECT e.global_sequence, e.event_type, row_number() OVER (ORDER BY e.global_sequence) AS place FROM headwater_private.events e
                   WHERE e.namespace_id = ns.namespace_id AND e.global_sequence > n.frontier
                     AND n.frontier >= ns.tail_after AND e.recorded_at >= ns.tail_from
                   ORDER BY e.global_sequence LIMIT claim_matching.max_events) e) p ON true;
    IF ahead.calm AND ahead.wanted > 0 THEN
        run := headwater_private.claim_run(claim_matching.namespace, claim_matching.subscriber_id, ahead.wanted, claim_matching.visibility,
                                   claim_matching.worker, claim_matching.max_attempts, claim_matching.acks, claim_matching.per_claim);
        IF run.claim_ids IS NOT NULL THEN
            RETURN QUERY SELECT run.claim_ids[1 + (e.global_sequence - run.first_sequence) / coalesce(claim_matching.per_claim, ahead.wanted)], 0, e.* FROM headwater_private.events e
                          WHERE e.namespace_id = run.namespace_id AND e.global_sequence BETWEEN run.first_sequence AND run.last_sequence
                            AND e.recorded_at >= CASE WHEN run.first_sequence > ns.tail_after THEN ns.tail_from ELSE '-infinity' END
                          ORDER BY e.global_sequence;
            RETURN;
        END IF;
    ELSIF ahead.calm AND ahead.events = 0 AND coalesce(claim_matching.acks = '{}', true)
          AND EXISTS (SELECT FROM headwater_private.subscribers s
                       WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = claim_matching.subscriber_id AND s.partition = 0
                         AND s.letters_epoch <= s.letters_checked) THEN
        RETURN;
    END IF;
    SELECT (c.state).* INTO newest FROM headwater_private.claims c
     WHERE c.namespace_id = ns.namespace_id AND c.subscriber_id = claim_matching.subscriber_id
     ORDER BY c.number DESC LIMIT 1;
    frontier := newest.frontier;
    IF frontier IS NULL THEN
        SELECT s.position INTO frontier FROM headwater_private.subscribers s
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = claim_matching.subscriber_id AND s.partition = 0;
    END IF;
    types := claim_matching.patterns;
    IF wild THEN
        SELECT l.* INTO bounds FROM headwater_private.log_bounds(ns.namespace_id, frontier, NULL, ahead_of) l;
        -- The patterns themselves too: as types they match nothing else, and a claim needs one.
        types := types || ARRAY(
            SELECT t.event_type FROM (
                SELECT o.event_type FROM unnest(newest.open) o
                 UNION
                SELECT t.event_type FROM headwater_private.retries r, unnest(r.event_types) AS t(event_type)
                 WHERE r.namespace_id = ns.namespace_id AND r.subscriber_id = claim_matching.subscriber_id
                 UNION
                SELECT d.event_type FROM headwater_private.dead_letters d
                 WHERE d.namespace_id = ns.namespace_id AND d.subscriber_id = claim_matching.subscriber_id AND d.state = 'redriving'
                 UNION
                SELECT e.event_type FROM (SELECT e.event_type FROM headwater_private.events e
                                           WHERE e.namespace_id = ns.namespace_id AND e.global_sequence > frontier
                                             AND e.recorded_at >= bounds.from_at AND e.recorded_at < bounds.until_at
                                           ORDER BY e.global_sequence LIMIT ahead_of) e
            ) t WHERE headwater_private.matches_pattern(t.event_type, claim_matching.patterns));
    END IF;
    RETURN QUERY SELECT * FROM headwater.claim(claim_matching.namespace, claim_matching.subscriber_id, claim_matching.max_events,
        claim_matching.visibility, types, claim_matching.worker, claim_matching.max_attempts, NULL, claim_matching.acks, claim_matching.per_claim);
END
$$;
