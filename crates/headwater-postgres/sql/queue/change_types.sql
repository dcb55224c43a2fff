-- headwater_private.change_types(namespace_id, subscriber_id, event_types)
-- Changes which event types a queue takes (NULL: all types). The new types decide about events that
-- no claim has passed, and about events in a gap. So the old types never decide about an event that
-- becomes visible after the change: such an event is after the frontier or in a gap. Events that
-- were left behind for workers, and that the queue no longer takes, are settled. The caller holds
-- the queue's lock.
-- Raises: nothing. Locks: the subscriber. Writes: the subscriber, claims.
CREATE OR REPLACE FUNCTION headwater_private.change_types(namespace_id int, subscriber_id text, event_types text[])
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest record;
    q      headwater_private.queue_state;
BEGIN
    UPDATE headwater_private.subscribers s SET event_types = change_types.event_types
     WHERE s.namespace_id = change_types.namespace_id AND s.subscriber_id = change_types.subscriber_id AND s.partition = 0;
    SELECT n.number, n.done, n.state INTO newest FROM headwater_private.queue_states n
     WHERE n.namespace_id = change_types.namespace_id AND n.subscriber_id = change_types.subscriber_id;
    q := newest.state;
    q.open := ARRAY(SELECT o FROM unnest(q.open) o
                     WHERE change_types.event_types IS NULL OR headwater_private.matches_pattern(o.event_type, change_types.event_types));
    IF cardinality(q.open) <> cardinality((newest.state).open) THEN
        -- Write a new row: an ack may have locked the newest one.
        PERFORM headwater_private.save_queue(change_types.namespace_id, change_types.subscriber_id, newest.number, newest.done, '{}', q);
    END IF;
END
$$;
