-- headwater.ack(namespace, subscriber_id, claim_id, sequences)
-- Finishes a claim, or some of its events: they are not delivered again. In the caller's transaction: with a rollback they stay claimed.
-- Naming events that were settled before does nothing.
-- Raises: WH001, WH002, WH014 if the claim is lost. Locks: the claim. Writes: the claim, a redriven dead letter.
CREATE OR REPLACE FUNCTION headwater.ack(namespace text, subscriber_id text, claim_id uuid, sequences bigint[] DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ns    headwater.namespaces := headwater.namespace_row(ack.namespace);
    claim headwater.claims := headwater.held_claim(ns.namespace_id, ack.subscriber_id, ack.claim_id, ack.sequences);
    rest  bigint[] := '{}';
BEGIN
    IF ack.sequences IS NOT NULL THEN
        rest := ARRAY(SELECT s.sequence FROM unnest(headwater.claimed_sequences(claim.namespace_id, claim.first_sequence,
                          claim.last_sequence, claim.sequences, claim.event_types)) AS s(sequence)
                       WHERE s.sequence <> ALL (ack.sequences));
    END IF;
    IF claim.of_letter AND rest = '{}' THEN
        PERFORM headwater.letters_handled(claim.namespace_id, claim.subscriber_id, claim.sequences);
    END IF;
    IF rest = '{}' THEN
        PERFORM headwater.end_claim(claim);
    ELSE
        UPDATE headwater.claims c SET sequences = rest WHERE c.claim_id = ack.claim_id;
    END IF;
END
$$;
