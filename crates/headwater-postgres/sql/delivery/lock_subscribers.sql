-- headwater_private.lock_subscribers(namespace_id, subscriber_id)
-- Locks a subscriber, or all subscribers of a namespace (NULL), in order of their ids, until the
-- transaction ends. Call it before you change several of their rows or letters.
-- Raises: WH012 if there is no such subscriber. Locks: the rows. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.lock_subscribers(namespace_id int, subscriber_id text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Two statements: a single one with an OR reads all subscribers if its plan is generic.
    IF lock_subscribers.subscriber_id IS NULL THEN
        PERFORM FROM headwater_private.subscribers s
          WHERE s.namespace_id = lock_subscribers.namespace_id
          ORDER BY s.subscriber_id, s.partition
            FOR NO KEY UPDATE;
        RETURN;
    END IF;
    PERFORM FROM headwater_private.subscribers s
      WHERE s.namespace_id = lock_subscribers.namespace_id AND s.subscriber_id = lock_subscribers.subscriber_id
      ORDER BY s.partition
        FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM headwater_private.fail('WH012', format('subscriber %L does not exist', left(lock_subscribers.subscriber_id, 80)),
            jsonb_build_object('subscriber_id', left(lock_subscribers.subscriber_id, 255)),
            'see which there are: SELECT * FROM headwater.subscriber_status(''namespace'')');
    END IF;
END
$$;
