-- headwater.nack(namespace, subscriber_id, claim_id, sequences, delay, error, permanent, tried)
-- Public: in docs/sql.md.
-- Hands back a claim, or some of its events: they are delivered again after the delay. They become
-- dead letters if they were delivered as often as the claim allows, or if the failure is permanent.
-- Events that were not tried do not count as delivered. Events that were settled before are
-- ignored. A call without a claim (NULL) and without sequences does nothing. Until the caller's
-- transaction ends, nobody else claims or hands back events of this subscriber.
-- The transaction waits for the disk, also in a session with synchronous_commit = off. Otherwise a
-- crash of the server could put the events back into the claim, and an ack of the rest would ack
-- them too.
-- Raises: WH001, WH002, WH006, WH014 if the claim is lost. Locks: the queue, the claim. Writes: the
-- claim, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater.nack(
    namespace text, subscriber_id text, claim_id uuid, sequences bigint[] DEFAULT NULL, delay interval DEFAULT '0', error text DEFAULT NULL,
    permanent boolean DEFAULT false, tried boolean DEFAULT true,
    caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns       headwater_private.namespaces := headwater_private.open_namespace(nack.namespace, caller, 'consumer');
    claim    headwater_private.claims;
    present  bigint[];
    failed   bigint[];
    newest   record;
    moment   timestamptz;
    again_at timestamptz;
BEGIN
    IF nack.claim_id IS NULL AND coalesce(array_remove(nack.sequences, NULL), '{}') = '{}' THEN
        RETURN;
    END IF;
    PERFORM headwater_private.check_interval('delay', nack.delay, '0', '1000 years', 'delay is an interval from 0 to 1000 years');
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM headwater_private.lock_queue(ns.namespace_id, nack.subscriber_id);
    claim := headwater_private.held_claim(ns.namespace_id, nack.subscriber_id, nack.claim_id, nack.sequences);
    present := headwater_private.claimed_sequences(claim.namespace_id, claim.first_sequence, claim.last_sequence, claim.sequences,
                                           claim.event_types);
    failed := CASE WHEN nack.sequences IS NULL THEN present
                   ELSE ARRAY(SELECT s.sequence FROM unnest(present) AS s(sequence) WHERE s.sequence = ANY (nack.sequences)) END;
    IF nack.permanent THEN
        claim.max_attempts := claim.attempts;
    ELSIF NOT nack.tried THEN
        claim.attempts := claim.attempts - 1;
    END IF;
    -- A worker that hands an event back has survived it.
    claim.suspect := claim.suspect AND NOT nack.tried;
    -- Never before the time up to which claims have looked, even if the clock goes back.
    SELECT n.number, n.done, n.state INTO newest FROM headwater_private.queue_states n
     WHERE n.namespace_id = claim.namespace_id AND n.subscriber_id = claim.subscriber_id;
    moment := greatest(clock_timestamp(), (newest.state).moment, (newest.state).due_from);
    again_at := moment + nack.delay;
    IF claim.of_letter AND NOT nack.tried AND NOT nack.permanent THEN
        PERFORM headwater_private.requeue_letters(claim, failed, again_at);
    ELSE
        PERFORM headwater_private.fail_claimed(claim, failed, again_at, coalesce(nack.error, 'handed back without a reason'));
    END IF;
    PERFORM headwater_private.note_due(claim.namespace_id, claim.subscriber_id, newest.number, newest.done, newest.state, again_at, moment);
    IF cardinality(failed) = cardinality(present) THEN
        PERFORM headwater_private.end_claim(claim);
    ELSIF cardinality(failed) > 0 THEN
        UPDATE headwater_private.claims c
           SET sequences = ARRAY(SELECT s.sequence FROM unnest(present) AS s(sequence) WHERE s.sequence <> ALL (failed))
         WHERE c.claim_id = nack.claim_id;
    END IF;
END
$$;
