-- headwater_private.may_notify()
-- Returns whether the server's NOTIFY queue has room for wake-ups. A session that listens and stays
-- in a transaction keeps all notifications of the cluster. When the queue is full, every commit
-- that notifies fails. So we add nothing to a half-full queue, and readers poll.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.may_notify()
RETURNS boolean LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_notification_queue_usage() <= 0.5
$$;
