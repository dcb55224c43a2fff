-- headwater_private.turn_back(namespace_id, subscriber_id, at, q)
-- Adapts a queue to a clock that went back to `at`. What was to happen some time after the last
-- recorded moment now happens the same time after `at`, what was due by that moment is due at once,
-- and everything is searched again. A claim that somebody has locked keeps its time. The caller
-- holds the queue's lock.
-- Raises: nothing. Locks: claims. Writes: claims, retries.
CREATE OR REPLACE FUNCTION headwater_private.turn_back(namespace_id int, subscriber_id text, at timestamptz, INOUT q headwater_private.queue_state)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    noted timestamptz := greatest(q.moment, q.expired_from, q.due_from);
BEGIN
    UPDATE headwater_private.retries r SET due_at = turn_back.at + greatest(r.due_at - noted, '0')
     WHERE r.namespace_id = turn_back.namespace_id AND r.subscriber_id = turn_back.subscriber_id AND r.due_at > turn_back.at;
    WITH ahead AS (
        SELECT c.number FROM headwater_private.claims c
         WHERE c.namespace_id = turn_back.namespace_id AND c.subscriber_id = turn_back.subscriber_id AND c.visible_at > turn_back.at
           FOR UPDATE SKIP LOCKED
    )
    UPDATE headwater_private.claims c SET visible_at = turn_back.at + greatest(c.visible_at - noted, '0')
      FROM ahead a
     WHERE c.namespace_id = turn_back.namespace_id AND c.subscriber_id = turn_back.subscriber_id AND c.number = a.number;
    q.moment := turn_back.at;
    q.expired_from := '-infinity';
    q.due_from := '-infinity';
    q.last_visible_at := '-infinity';
    q.look_at := '-infinity';
END
$$;
