-- headwater_private.end_claim(claim)
-- Ends a claim of which nothing is left to do: deletes its row. The row of the newest claim carries
-- the queue's state, so it stays and is marked as done. A caller without the queue's lock may take
-- a claim for the newest while a newer one is about to be committed. Then the row stays until the
-- claim would have expired.
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
