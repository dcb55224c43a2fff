-- headwater_private.lock_queue(namespace_id, subscriber_id)
-- Lets one transaction at a time claim, hand back or reset events of a shared subscriber.
-- Statements that begin afterwards see everything that the earlier transactions committed. A
-- transaction that keeps one snapshot would not see it, so it is refused. The lock is the lock of a
-- row. Nobody can take it except through Headwater's functions.
-- Raises: WH006. Locks: the queue's row, until the transaction ends. Writes: that row, if it does
-- not exist.
CREATE OR REPLACE FUNCTION headwater_private.lock_queue(namespace_id int, subscriber_id text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.require_proof();
    LOOP
        PERFORM FROM headwater_private.queues l
          WHERE l.namespace_id = lock_queue.namespace_id AND l.subscriber_id = lock_queue.subscriber_id
            FOR UPDATE;
        EXIT WHEN FOUND OR lock_queue.subscriber_id IS NULL;
        -- If another session makes the row at the same time, this waits for its transaction, which
        -- holds the lock until it ends.
        INSERT INTO headwater_private.queues (namespace_id, subscriber_id) VALUES (lock_queue.namespace_id, lock_queue.subscriber_id)
        ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;
