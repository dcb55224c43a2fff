-- headwater_private.look_at(queue_key, q, moment, window_)
-- When a queue has to be searched again for claims that expire and retries that are due, once it was at `moment`: exact within the window, its
-- end if nothing happens in it but claims are about, never if there is nothing to wait for. The caller holds the queue's lock.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.look_at(queue_key text, q headwater_private.queue_state, moment timestamptz, window_ interval)
RETURNS timestamptz LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    expires timestamptz := 'infinity';
    due     timestamptz;
BEGIN
    IF q.expired_from < moment THEN
        RETURN moment;
    END IF;
    -- Claims that were extended last longer than any did when it was made.
    IF q.last_visible_at > moment OR EXISTS (SELECT FROM headwater_private.claims c
                                              WHERE c.subscriber_id || '/' || c.namespace_id::text = queue_key
                                                AND c.visible_at > moment AND NOT c.done) THEN
        -- Within the window alone: what expires later may be rows by the thousand that are gone, and still have to be passed.
        SELECT c.visible_at INTO expires FROM headwater_private.claims c
         WHERE c.subscriber_id || '/' || c.namespace_id::text = queue_key AND c.visible_at > moment AND c.visible_at <= moment + window_
         ORDER BY c.visible_at LIMIT 1;
        expires := coalesce(expires, moment + window_);
    END IF;
    due := headwater_private.next_due(queue_key, q.due_from);
    RETURN least(expires, due);
END
$$;
