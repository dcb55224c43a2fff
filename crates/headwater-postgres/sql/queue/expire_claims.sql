-- headwater_private.expire_claims(namespace_id, subscriber_id, newest, candidates, moment, why, q,
-- newest_ended)
-- Takes back what is left of expired claims: each of their events is delivered again, alone.
-- Deletes the claims that are done. The expiry counts as an attempt only if the event was handed
-- out alone: of several events, nobody knows which one the worker had begun. The newest claim
-- stays, because it carries the queue's state, and is marked as done: newest_ended says so. `why`
-- is the error that the attempt records: a format with the worker's name. If somebody has locked a
-- candidate, for example with an ack that is not committed yet, it is recorded in `q`, and the next
-- call looks at it. The caller holds the queue's lock.
-- Raises: nothing. Locks: claims. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater_private.expire_claims(
    namespace_id int, subscriber_id text, newest bigint, candidates bigint[], moment timestamptz, why text,
    INOUT q headwater_private.queue_state, OUT newest_ended boolean
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    claim     headwater_private.claims;
    candidate bigint;
    skipped   bigint[] := '{}';
    left_     bigint[];
    error     text;
BEGIN
    newest_ended := false;
    -- One by one, so that each is looked up by its whole key.
    FOREACH candidate IN ARRAY candidates LOOP
        SELECT c.* INTO claim FROM headwater_private.claims c
         WHERE c.namespace_id = expire_claims.namespace_id AND c.subscriber_id = expire_claims.subscriber_id AND c.number = candidate
           AND c.visible_at <= moment
           FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            -- The claim is locked, gone or extended: a later statement tells which. An extended
            -- claim is found by its new time.
            PERFORM FROM headwater_private.claims c
              WHERE c.namespace_id = expire_claims.namespace_id AND c.subscriber_id = expire_claims.subscriber_id AND c.number = candidate
                AND c.visible_at <= moment;
            IF FOUND AND candidate <> ALL (skipped) THEN
                skipped := skipped || candidate;
            END IF;
            CONTINUE;
        END IF;
        IF NOT claim.done THEN
            left_ := headwater_private.claimed_sequences(claim.namespace_id, claim.first_sequence, claim.last_sequence, claim.sequences,
                                                 claim.event_types);
            error := format(expire_claims.why, claim.worker);
            claim.suspect := true;
            IF claim.counts THEN
                PERFORM headwater_private.fail_claimed(claim, left_, moment, error);
            ELSE
                claim.attempts := claim.attempts - 1;
                claim.uncounted := claim.uncounted + 1;
                IF claim.of_letter THEN
                    PERFORM headwater_private.requeue_letters(claim, left_, moment);
                ELSE
                    claim.max_attempts := claim.attempts + 1;
                    PERFORM headwater_private.fail_claimed(claim, left_, moment, error || '; with other events, so it does not count');
                END IF;
            END IF;
        END IF;
        PERFORM headwater_private.end_claim(claim);
        newest_ended := newest_ended OR claim.number = newest;
    END LOOP;
    q.skipped := skipped;
END
$$;
