-- headwater_private.ack_claims(namespace_id, subscriber_id, claim_ids, newest, newest_ended)
-- Acks whole claims for claim_with_care, which holds the queue's lock; the newest is its own to end.
-- Raises: WH014. Locks, writes: claims, redriven dead letters.
CREATE OR REPLACE FUNCTION headwater_private.ack_claims(
    namespace_id int, subscriber_id text, claim_ids uuid[], newest headwater_private.claims, newest_ended boolean
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lost    uuid[];
    acked   uuid[];
    letters bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM headwater_private.claims c
         WHERE c.claim_id = ANY (claim_ids) AND NOT c.done AND c.number <> newest.number
           -- Not for an index, as in held_claim.
           AND c.namespace_id IS NOT DISTINCT FROM ack_claims.namespace_id
           AND c.subscriber_id IS NOT DISTINCT FROM ack_claims.subscriber_id
        RETURNING c.claim_id, c.of_letter, c.sequences
    )
    SELECT array_agg(g.claim_id), array_agg(g.sequences[1]) FILTER (WHERE g.of_letter) INTO acked, letters FROM gone g;
    IF newest_ended THEN
        acked := acked || newest.claim_id;
        IF newest.of_letter THEN
            letters := letters || newest.sequences[1];
        END IF;
    END IF;
    SELECT array_agg(a.claim_id) INTO lost FROM unnest(claim_ids) AS a(claim_id) WHERE (a.claim_id = ANY (acked)) IS NOT TRUE;
    IF lost IS NOT NULL THEN
        PERFORM headwater_private.claim_lost(ack_claims.subscriber_id, lost);
    END IF;
    IF letters IS NOT NULL THEN
        PERFORM headwater_private.letters_handled(ack_claims.namespace_id, ack_claims.subscriber_id, letters);
    END IF;
END
$$;
