-- headwater.ack(namespace, subscriber_id, claim_id, sequences)
-- Public: in docs/sql.md.
-- Finishes a claim, or some of its events: they are not delivered again. The call is part of the
-- caller's transaction: after a rollback the events are still claimed. Events that were settled
-- before are ignored. A call without a claim (NULL) and without sequences does nothing:
-- headwater.claim returns a row without a claim if it has looked far and found nothing.
-- Raises: WH001, WH002, WH014 if the claim is lost. Locks: the claim. Writes: the claim, a redriven
-- dead letter.
CREATE OR REPLACE FUNCTION headwater.ack(namespace text, subscriber_id text, claim_id uuid, sequences bigint[] DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns    headwater_private.namespaces := headwater_private.open_namespace(ack.namespace, caller, 'consumer');
    claim headwater_private.claims;
    rest  bigint[] := '{}';
BEGIN
    IF ack.claim_id IS NULL AND coalesce(array_remove(ack.sequences, NULL), '{}') = '{}' THEN
        RETURN;
    END IF;
    IF ack.sequences IS NULL THEN
        -- Most acks take this path. It does what held_claim and end_claim do, in one statement.
        DELETE FROM headwater_private.claims c
         WHERE c.claim_id = ack.claim_id AND NOT c.done AND NOT c.of_letter
           AND c.namespace_id IS NOT DISTINCT FROM ns.namespace_id AND c.subscriber_id IS NOT DISTINCT FROM ack.subscriber_id
           AND c.number < (SELECT n.number FROM headwater_private.queue_states n
                            WHERE n.namespace_id = ns.namespace_id AND n.subscriber_id = ack.subscriber_id);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    claim := headwater_private.held_claim(ns.namespace_id, ack.subscriber_id, ack.claim_id, ack.sequences);
    IF ack.sequences IS NOT NULL THEN
        rest := ARRAY(SELECT s.sequence FROM unnest(headwater_private.claimed_sequences(claim.namespace_id, claim.first_sequence,
                          claim.last_sequence, claim.sequences, claim.event_types)) AS s(sequence)
                       WHERE s.sequence <> ALL (ack.sequences));
    END IF;
    IF claim.of_letter AND rest = '{}' THEN
        PERFORM headwater_private.letters_handled(claim.namespace_id, claim.subscriber_id, claim.sequences);
    END IF;
    IF rest = '{}' THEN
        PERFORM headwater_private.end_claim(claim);
    ELSE
        UPDATE headwater_private.claims c SET sequences = rest WHERE c.claim_id = ack.claim_id;
    END IF;
END
$$;
