-- headwater.queue_lags()
-- The shared subscribers of all namespaces, for a monitor: the view headwater.queue_metrics. Looks at claims and retries, never at the log. The function
-- runs as whoever asks the view, so that each sees the namespaces that were granted.
--   waiting      at most so many events that nobody has claimed yet
--   in_flight    at most so many events that are claimed, retries: those to deliver again
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.queue_lags(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, waiting bigint, claims bigint, in_flight bigint, retries bigint, left_behind text[],
               oldest_waiting_seconds double precision, dead_letters bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT n.namespace, s.subscriber_id, s.lag_events, q.claims, q.in_flight, q.retries, q.left_behind,
           extract(epoch FROM s.lag)::double precision, s.dead_letters
      FROM headwater_private.namespaces n
     CROSS JOIN LATERAL headwater.queue_status(n.namespace) q
     CROSS JOIN LATERAL headwater.subscriber_status(n.namespace, q.subscriber_id) s
     WHERE n.namespace_id = ANY (headwater_private.granted_to(caller, 'consumer'))
     ORDER BY n.namespace, s.subscriber_id;
END
$$;
CREATE OR REPLACE VIEW headwater.queue_metrics AS SELECT q.* FROM headwater.queue_lags() q;
