-- headwater.claim_matching(namespace, subscriber_id, max_events, visibility, patterns, worker, max_attempts, acks)
-- As headwater.claim, for event types that are given as patterns, in which * stands for any characters. Types are looked up where the queue looks
-- for events: what others left behind, what is to be delivered again, and what comes next in the log. Further on, a type that none of these
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
    acks          uuid[] DEFAULT NULL
) RETURNS TABLE (claim_id uuid, redelivery_count int, global_sequence bigint, stream_version bigint, transaction_id bigint,
                 created_at timestamptz, recorded_at timestamptz, namespace_id int, schema_version int, event_id uuid, correlation_id uuid,
                 causation_id uuid, event_type text, stream_id text, key text, actor_id text, headers jsonb, data jsonb)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    ns       headwater.namespaces := headwater.namespace_row(claim_matching.namespace);
    newest   headwater.queue_state;
    frontier bigint;
    types    text[];
BEGIN
    PERFORM headwater.check_max_events(claim_matching.max_events);
    PERFORM headwater.check_patterns(claim_matching.patterns);
    IF '*' = ANY (claim_matching.patterns) THEN
        RETURN QUERY SELECT * FROM headwater.claim(claim_matching.namespace, claim_matching.subscriber_id, claim_matching.max_events,
            claim_matching.visibility, NULL, claim_matching.worker, claim_matching.max_attempts, NULL, claim_matching.acks);
        RETURN;
    END IF;
    PERFORM headwater.lock_queue(ns.namespace_id, claim_matching.subscriber_id);
    SELECT (c.state).* INTO newest FROM headwater.claims c
     WHERE c.namespace_id = ns.namespace_id AND c.subscriber_id = claim_matching.subscriber_id
     ORDER BY c.number DESC LIMIT 1;
    frontier := newest.frontier;
    IF frontier IS NULL THEN
        SELECT s.position INTO frontier FROM headwater.subscribers s
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = claim_matching.subscriber_id AND s.partition = 0;
    END IF;
    -- The patterns themselves too: as types they match nothing else, and a claim needs one.
    types := claim_matching.patterns || ARRAY(
        SELECT t.event_type FROM (
            SELECT o.event_type FROM unnest(newest.open) o
             UNION
            SELECT t.event_type FROM headwater.retries r, unnest(r.event_types) AS t(event_type)
             WHERE r.namespace_id = ns.namespace_id AND r.subscriber_id = claim_matching.subscriber_id
             UNION
            SELECT e.event_type FROM (SELECT e.event_type FROM headwater.events e
                                       WHERE e.namespace_id = ns.namespace_id AND e.global_sequence > frontier
                                       ORDER BY e.global_sequence LIMIT least(greatest(4 * claim_matching.max_events, 200), 10000)) e
        ) t WHERE headwater.matches_pattern(t.event_type, claim_matching.patterns));
    RETURN QUERY SELECT * FROM headwater.claim(claim_matching.namespace, claim_matching.subscriber_id, claim_matching.max_events,
        claim_matching.visibility, types, claim_matching.worker, claim_matching.max_attempts, NULL, claim_matching.acks);
END
$$;
