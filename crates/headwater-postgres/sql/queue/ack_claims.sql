-- headwater_private.ack_claims(namespace_id, subscriber_id, claim_ids, kept)
-- Acks whole claims, all or none. The claim with the number `kept` carries the queue's state, so
-- its row stays and is only marked as done. Returns whether this claim was among them. The caller
-- holds the queue's lock.
-- Raises: WH014. Locks, writes: claims, redriven dead letters.
CREATE OR REPLACE FUNCTION headwater_private.ack_claims(namespace_id int, subscriber_id text, claim_ids uuid[], kept bigint)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lost    uuid[];
    acked   uuid[];
    letters bigint[];
    ended   boolean;
BEGIN
    WITH ended AS (
        UPDATE headwater_private.claims c SET done = true
         WHERE c.claim_id = ANY (claim_ids) AND NOT c.done AND c.number = kept
           -- IS NOT DISTINCT FROM uses no index: the index on claim_id is the right one, as in
           -- held_claim.
           AND c.namespace_id IS NOT DISTINCT FROM ack_claims.namespace_id
           AND c.subscriber_id IS NOT DISTINCT FROM ack_claims.subscriber_id
        RETURNING c.claim_id, c.of_letter, c.sequences, true AS is_kept
    ), gone AS (
        DELETE FROM headwater_private.claims c
         WHERE c.claim_id = ANY (claim_ids) AND NOT c.done AND c.number IS DISTINCT FROM kept
           AND c.namespace_id IS NOT DISTINCT FROM ack_claims.namespace_id
           AND c.subscriber_id IS NOT DISTINCT FROM ack_claims.subscriber_id
        RETURNING c.claim_id, c.of_letter, c.sequences, false
    )
    SELECT coalesce(array_agg(g.claim_id), '{}'), array_agg(g.sequences[1]) FILTER (WHERE g.of_letter), coalesce(bool_or(g.is_kept), false)
      INTO acked, letters, ended
      FROM (SELECT * FROM ended UNION ALL SELECT * FROM gone) g;
    IF (claim_ids <@ acked) IS NOT TRUE THEN
        SELECT array_agg(a.claim_id) INTO lost FROM unnest(claim_ids) AS a(claim_id) WHERE (a.claim_id = ANY (acked)) IS NOT TRUE;
        PERFORM headwater_private.claim_lost(ack_claims.subscriber_id, lost);
    END IF;
    IF letters IS NOT NULL THEN
        PERFORM headwater_private.letters_handled(ack_claims.namespace_id, ack_claims.subscriber_id, letters);
    END IF;
    RETURN ended;
END
$$;
