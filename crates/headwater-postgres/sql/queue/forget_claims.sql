-- headwater_private.forget_claims(namespace_id, subscriber_id)
-- Deletes all claims and retries of a shared subscriber: workers that hold a claim have lost it.
-- Redriven letters among them are to be queued again. The caller holds the queue's lock, and has
-- locked the subscriber's row.
-- Raises: nothing. Locks: claims, letters. Writes: claims and retries (deletes them), letters, and
-- in the subscriber that there are letters to queue.
CREATE OR REPLACE FUNCTION headwater_private.forget_claims(namespace_id int, subscriber_id text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM headwater_private.claims c
     WHERE c.namespace_id = forget_claims.namespace_id AND c.subscriber_id = forget_claims.subscriber_id;
    DELETE FROM headwater_private.retries r
     WHERE r.namespace_id = forget_claims.namespace_id AND r.subscriber_id = forget_claims.subscriber_id;
    UPDATE headwater_private.dead_letters d SET queued = false
     WHERE d.namespace_id = forget_claims.namespace_id AND d.subscriber_id = forget_claims.subscriber_id AND d.queued;
    IF FOUND THEN
        UPDATE headwater_private.subscribers s SET letters_epoch = s.letters_epoch + 1
         WHERE s.namespace_id = forget_claims.namespace_id AND s.subscriber_id = forget_claims.subscriber_id AND s.partition = 0;
    END IF;
END
$$;
