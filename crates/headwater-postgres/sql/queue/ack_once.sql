-- headwater.ack_once(namespace, subscriber_id, claim_id, sequences)
-- Does what headwater.ack does, in a transaction that has effects. It fails if an event was settled
-- before. So if the same ack comes a second time, because the commit of the first one was slow, the
-- effects of the second transaction are rolled back.
-- Raises: WH001, WH002, WH014 if the claim, or one of these events, is lost. Locks, writes: see
-- ack.
CREATE OR REPLACE FUNCTION headwater.ack_once(namespace text, subscriber_id text, claim_id uuid, sequences bigint[] DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns    headwater_private.namespaces;
    claim headwater_private.claims;
BEGIN
    ns := headwater_private.open_namespace(ack_once.namespace, caller, 'consumer');
    IF ack_once.sequences IS NOT NULL THEN
        claim := headwater_private.held_claim(ns.namespace_id, ack_once.subscriber_id, ack_once.claim_id, ack_once.sequences);
        IF NOT ack_once.sequences <@ headwater_private.claimed_sequences(claim.namespace_id, claim.first_sequence, claim.last_sequence,
                                                                 claim.sequences, claim.event_types) THEN
            PERFORM headwater_private.claim_lost(ack_once.subscriber_id, ARRAY[ack_once.claim_id]);
        END IF;
    END IF;
    PERFORM headwater.ack(ack_once.namespace, ack_once.subscriber_id, ack_once.claim_id, ack_once.sequences);
END
$$;
