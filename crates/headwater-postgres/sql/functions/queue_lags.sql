-- headwater.queue_lags()
-- The shared subscribers of all namespaces, for a monitor: the view headwater.queue_metrics. See headwater_private.lags_query for what it costs. The function
-- runs as whoever asks the view, so that each sees the namespaces that were granted.
--   waiting      at most so many events that nobody has claimed yet
--   in_flight    at most so many events that are claimed, retries: those to deliver again
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.queue_lags(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, waiting bigint, claims bigint, in_flight bigint, retries bigint, left_behind text[],
               oldest_waiting_seconds double precision, dead_letters bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET jit = off SET enable_nestloop = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.namespace, l.subscriber_id, l.lag_events, l.claims, l.in_flight, l.retries, l.left_behind, l.lag_seconds, l.dead_letters
           FROM (' || headwater_private.lags_query('queue_places', headwater_private.only_granted(caller, 'consumer')) || ') l';
END
$$;
CREATE OR REPLACE VIEW headwater.queue_metrics AS SELECT q.* FROM headwater.queue_lags() q;
