-- headwater_private.next_look(queue_key, q, moment, window_)
-- Returns when to search a queue again for claims that expire and retries that are due, after it
-- was searched at `moment`. Within the window, the time is exact. If nothing happens in the window,
-- but somebody holds claims, it is the end of the window. If there is nothing to wait for, it is
-- infinity. The caller holds the queue's lock.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.next_look(queue_key text, q headwater_private.queue_state, moment timestamptz, window_ interval)
RETURNS timestamptz LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    expires timestamptz := 'infinity';
    due     timestamptz;
BEGIN
    IF q.expired_from < moment THEN
        RETURN moment;
    END IF;
    -- last_visible_at is the latest time that a claim got when it was made. An extended claim can
    -- last longer.
    IF q.last_visible_at > moment OR EXISTS (SELECT FROM headwater_private.claims c
                                              WHERE c.subscriber_id || '/' || c.namespace_id::text = queue_key
                                                AND c.visible_at > moment AND NOT c.done) THEN
        -- Search only within the window. Beyond it there may be thousands of rows that are deleted
        -- already, and a search would have to pass over all of them.
        SELECT c.visible_at INTO expires FROM headwater_private.claims c
         WHERE c.subscriber_id || '/' || c.namespace_id::text = queue_key AND c.visible_at > moment AND c.visible_at <= moment + window_
         ORDER BY c.visible_at LIMIT 1;
        expires := coalesce(expires, moment + window_);
    END IF;
    due := headwater_private.next_due(queue_key, q.due_from);
    RETURN least(expires, due);
END
$$;
