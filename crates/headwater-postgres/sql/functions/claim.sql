-- headwater.claim(namespace, subscriber_id, max_events, visibility, event_types, worker, max_attempts, settled, acks, per_claim)
-- Public: in docs/sql.md.
-- Claims events of a shared subscriber and answers them, as headwater.claim_ranges does. Finish each with headwater.ack, or hand it back with
-- headwater.nack, by its claim_id: events that were claimed together share one, but for new ones at most per_claim, if that
-- is not NULL: claims can then be worked on side by side. redelivery_count is 0 the first time.
-- Raises: WH001, WH002, WH006, WH012, WH013, WH014. Locks: the queue. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater.claim(
    namespace     text,
    subscriber_id text,
    max_events    int DEFAULT 10,
    visibility    interval DEFAULT '30 s',
    event_types   text[] DEFAULT NULL,
    worker        text DEFAULT NULL,
    max_attempts  int DEFAULT 4,
    settled       bigint DEFAULT NULL,
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
    ns  headwater_private.namespaces;
    run record;
    r   record;
BEGIN
    IF claim.event_types IS NULL AND claim.settled IS NULL THEN
        run := headwater_private.claim_run(claim.namespace, claim.subscriber_id, claim.max_events, claim.visibility, claim.worker, claim.max_attempts,
                                   claim.acks, claim.per_claim, caller);
        IF run.idle THEN
            RETURN;
        ELSIF run.claim_ids IS NOT NULL THEN
            RETURN QUERY SELECT run.claim_ids[1 + (e.global_sequence - run.first_sequence) / coalesce(claim.per_claim, claim.max_events)], 0, e.*
                           FROM headwater_private.events e
                          WHERE e.namespace_id = run.namespace_id AND e.global_sequence BETWEEN run.first_sequence AND run.last_sequence
                            AND e.recorded_at >= (SELECT n.tail_from FROM headwater_private.namespaces n
                                                   WHERE n.namespace_id = run.namespace_id AND n.tail_after < run.first_sequence
                                                   UNION ALL SELECT '-infinity' LIMIT 1)
                          ORDER BY e.global_sequence;
            RETURN;
        END IF;
    END IF;
    ns := headwater_private.open_namespace(claim.namespace, caller, 'consumer');
    PERFORM headwater_private.check_per_claim(claim.per_claim);
    -- The events in statements of their own: they see all that the claim saw.
    FOR r IN SELECT * FROM headwater_private.claim_with_care(claim.namespace, claim.subscriber_id, least(claim.max_events, claim.per_claim),
                               claim.visibility, claim.event_types, claim.worker, claim.max_attempts, claim.settled, claim.acks, false)
    LOOP
        RETURN QUERY SELECT r.claim_id, r.redelivery_count, e.*
                       FROM headwater.claimed_events(ns.namespace_id, r.first_sequence, r.last_sequence, r.types, r.sequences) e;
    END LOOP;
END
$$;
