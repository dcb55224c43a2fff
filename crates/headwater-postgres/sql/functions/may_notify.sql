-- headwater_private.may_notify()
-- Whether there is room for wake-ups in the server's NOTIFY queue. A session that listens and stays in a transaction keeps all notifications of the cluster, and
-- when the queue is full, every commit that notifies fails. So a half-full queue gets none of ours: readers poll.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.may_notify()
RETURNS boolean LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_notification_queue_usage() <= 0.5
$$;
