-- headwater_private.end_claim(claim)
-- Nothing of a claim is left to do: its row goes, or, if it is the newest, stays for the queue's state, and is done. Who does not hold the queue's lock may take
-- it for the newest while a newer one is about to be committed: it stays then until it would have expired.
-- Raises: nothing. Locks, writes: the claim.
CREATE OR REPLACE FUNCTION headwater_private.end_claim(claim headwater_private.claims)
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM headwater_private.claims c
     WHERE c.namespace_id = claim.namespace_id AND c.subscriber_id = claim.subscriber_id AND c.number = claim.number
       AND c.number < (SELECT n.number FROM headwater_private.queue_states n
                        WHERE n.namespace_id = claim.namespace_id AND n.subscriber_id = claim.subscriber_id);
    IF NOT FOUND THEN
        UPDATE headwater_private.claims c SET done = true
         WHERE c.namespace_id = claim.namespace_id AND c.subscriber_id = claim.subscriber_id AND c.number = claim.number;
    END IF;
END
$$;
