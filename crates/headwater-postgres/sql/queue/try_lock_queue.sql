-- headwater_private.try_lock_queue(namespace_id, subscriber_id)
-- Takes the lock of lock_queue if nobody else has it, and returns whether it did. It does not wait
-- for a claim. The row may not exist, because a crash removed it, and another session may be
-- creating it: then this waits for that session, for a tenth of a second.
-- Raises: nothing. Locks: the queue's row, until the transaction ends. Writes: that row, if it does
-- not exist.
CREATE OR REPLACE FUNCTION headwater_private.try_lock_queue(namespace_id int, subscriber_id text)
RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '100ms' SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM headwater_private.queues l
      WHERE l.namespace_id = try_lock_queue.namespace_id AND l.subscriber_id = try_lock_queue.subscriber_id
        FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN true;
    END IF;
    BEGIN
        INSERT INTO headwater_private.queues (namespace_id, subscriber_id) VALUES (try_lock_queue.namespace_id, try_lock_queue.subscriber_id)
        ON CONFLICT DO NOTHING;
        RETURN FOUND;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
END
$$;
