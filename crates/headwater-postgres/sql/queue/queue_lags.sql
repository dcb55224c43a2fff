-- headwater.queue_lags()
-- Returns the shared subscribers of all namespaces, for a monitor: the view
-- headwater.queue_metrics. headwater_private.lags_query says what it costs. The function runs with
-- the rights of the role that queries the view, so each role sees the namespaces that it was
-- granted.
--   waiting      an upper bound for the number of events that nobody has claimed yet
--   in_flight    an upper bound for the number of events that are claimed
--   retries      events to deliver again
--   event_types, workers and rate are as in headwater.queue_status
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.queue_lags(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, waiting bigint, claims bigint, in_flight bigint, retries bigint, left_behind text[],
               oldest_waiting_seconds double precision, dead_letters bigint, "position" bigint, event_types text[], workers bigint,
               rate double precision, paused boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET jit = off SET enable_nestloop = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.namespace, l.subscriber_id, l.lag_events, l.claims, l.in_flight, l.retries, l.left_behind, l.lag_seconds, l.dead_letters,
                l.position, l.event_types, l.workers, l.rate, l.paused
           FROM (' || headwater_private.lags_query('queue_places', headwater_private.only_granted(caller, 'consumer')) || ') l';
END
$$;
CREATE OR REPLACE VIEW headwater.queue_metrics AS SELECT q.* FROM headwater.queue_lags() q;
