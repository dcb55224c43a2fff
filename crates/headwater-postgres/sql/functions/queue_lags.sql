-- headwater.queue_lags()
-- The shared subscribers of all namespaces, for a monitor: the view headwater.queue_metrics. Looks at claims and retries, never at the log. The function
-- runs as whoever asks the view, so that each sees the namespaces that were granted.
--   waiting      at most so many events that nobody has claimed yet
--   in_flight    at most so many events that are claimed, retries: those to deliver again
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.queue_lags(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, waiting bigint, claims bigint, in_flight bigint, retries bigint, left_behind text[],
               oldest_waiting_seconds double precision, dead_letters bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.namespace, s.subscriber_id, s.lag_events, q.claims, q.in_flight, q.retries::bigint, q.left_behind, s.lag_seconds, s.dead_letters
      FROM headwater.subscriber_lags() s
      JOIN headwater_private.namespaces n ON n.namespace = s.namespace
      JOIN unnest(headwater_private.granted_to(caller, 'consumer')) AS a(namespace_id) ON a.namespace_id = n.namespace_id
      JOIN headwater_private.queue_positions q ON q.namespace_id = n.namespace_id AND q.subscriber_id = s.subscriber_id
     WHERE s.mode = 'shared'
     ORDER BY s.namespace, s.subscriber_id;
END
$$;
CREATE OR REPLACE VIEW headwater.queue_metrics AS SELECT q.* FROM headwater.queue_lags() q;
