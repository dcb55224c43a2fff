-- headwater.claim_ranges(namespace, subscriber_id, max_events, visibility, event_types, worker, max_attempts, settled, acks)
-- Claims events of a shared subscriber, up to max_events in all: nobody else gets them until the claim expires, after `visibility`, unless it is
-- extended. What failed or expired before comes first, then what others left behind, then what is new in the log. Answers the claims, without
-- the events: all in the range, of `types` if that is not NULL; or those in `sequences` if that is not NULL. headwater.claim answers with events.
--   event_types    only these; the others are left for other workers (NULL: all)
--   max_attempts   an event that was delivered so often is not delivered again when it fails: it becomes a dead letter
--   settled        the caller has proved that all at or below is settled: what is new is then claimed as a range, without a look at the log
--   acks           claims that are done: acked before anything else, all or none
-- A paused subscriber gets nothing. Until the caller's transaction ends, nobody else claims events of this subscriber.
-- Raises: WH001, WH002, WH006, WH012, WH013 if the subscriber is not shared, WH014 if one of the acks is lost.
-- Locks: the queue. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater.claim_ranges(
    namespace     text,
    subscriber_id text,
    max_events    int DEFAULT 10,
    visibility    interval DEFAULT '30 s',
    event_types   text[] DEFAULT NULL,
    worker        text DEFAULT NULL,
    max_attempts  int DEFAULT 4,
    settled       bigint DEFAULT NULL,
    acks          uuid[] DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (claim_id uuid, redelivery_count int, first_sequence bigint, last_sequence bigint, sequences bigint[], types text[],
                 visible_at timestamptz)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    run record;
BEGIN
    IF claim_ranges.event_types IS NULL AND claim_ranges.settled IS NULL THEN
        run := headwater_private.claim_run(claim_ranges.namespace, claim_ranges.subscriber_id, claim_ranges.max_events, claim_ranges.visibility,
                                   claim_ranges.worker, claim_ranges.max_attempts, claim_ranges.acks, NULL, caller);
        IF run.idle THEN
            RETURN;
        ELSIF run.claim_ids IS NOT NULL THEN
            claim_id := run.claim_ids[1];
            redelivery_count := 0;
            first_sequence := run.first_sequence;
            last_sequence := run.last_sequence;
            visible_at := run.visible_at;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    PERFORM headwater_private.open_namespace(claim_ranges.namespace, caller, 'consumer');
    RETURN QUERY SELECT * FROM headwater_private.claim_with_care(claim_ranges.namespace, claim_ranges.subscriber_id, claim_ranges.max_events,
        claim_ranges.visibility, claim_ranges.event_types, claim_ranges.worker, claim_ranges.max_attempts, claim_ranges.settled,
        claim_ranges.acks, false);
END
$$;
