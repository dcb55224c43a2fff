-- headwater.expire_claims(namespace_id, subscriber_id, newest, candidates, moment, q, newest_ended)
-- Takes back what is left of expired claims, to be delivered again; deletes those that are done. The newest stays for its state: `newest_ended`
-- tells that nothing of it is left. A candidate that somebody has locked, as by an ack that is not committed, is noted in q, and looked at next time. The
-- caller holds the queue's lock.
-- Raises: nothing. Locks: claims. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater.expire_claims(
    namespace_id int, subscriber_id text, newest bigint, candidates bigint[], moment timestamptz,
    INOUT q headwater.queue_state, INOUT newest_ended boolean
) LANGUAGE plpgsql AS $$
DECLARE
    claim headwater.claims;
    seen  bigint[] := '{}';
BEGIN
    FOR claim IN SELECT c.* FROM headwater.claims c
                  WHERE c.namespace_id = expire_claims.namespace_id AND c.subscriber_id = expire_claims.subscriber_id
                    AND c.number = ANY (candidates) AND c.visible_at <= moment
                  ORDER BY c.visible_at, c.number
                    FOR UPDATE SKIP LOCKED
    LOOP
        seen := seen || claim.number;
        IF NOT claim.done AND NOT (claim.number = newest AND newest_ended) THEN
            PERFORM headwater.fail_claimed(claim,
                headwater.claimed_sequences(claim.namespace_id, claim.first_sequence, claim.last_sequence, claim.sequences,
                                            claim.event_types),
                moment, format('claim expired: worker %L neither finished nor extended it in time', claim.worker));
        END IF;
        IF claim.number = newest THEN
            newest_ended := true;
        ELSE
            DELETE FROM headwater.claims c
             WHERE c.namespace_id = claim.namespace_id AND c.subscriber_id = claim.subscriber_id AND c.number = claim.number;
        END IF;
    END LOOP;
    -- Later by a statement: whoever has extended its claim meanwhile is found by its time.
    q.skipped := ARRAY(SELECT c.number FROM headwater.claims c
                        WHERE c.namespace_id = expire_claims.namespace_id AND c.subscriber_id = expire_claims.subscriber_id
                          AND c.number = ANY (candidates) AND c.number <> ALL (seen) AND c.visible_at <= moment
                        ORDER BY c.number);
END
$$;
