-- headwater.subscriber_lags()
-- How far the subscribers of all namespaces are behind, for a monitor: the view headwater.subscriber_lag. Lookups, whatever the length of the log. The function runs
-- as whoever asks the view, so that each sees the namespaces that were granted.
--   lag_events   at most so many events, lag_seconds: how long the first of them has been there
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.subscriber_lags(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, mode text, partitions int, "position" bigint, lag_events bigint, lag_seconds double precision,
               paused boolean, owner_node text, dead_letters bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT n.namespace, s.subscriber_id, s.mode, s.partitions, s.position, s.lag_events, extract(epoch FROM s.lag)::double precision, s.paused,
           s.owner_node, s.dead_letters
      FROM headwater_private.namespaces n CROSS JOIN LATERAL headwater.subscriber_status(n.namespace) s
     WHERE n.namespace_id = ANY (headwater_private.granted_to(caller, 'consumer'))
     ORDER BY n.namespace, s.subscriber_id;
END
$$;
CREATE OR REPLACE VIEW headwater.subscriber_lag AS SELECT l.* FROM headwater.subscriber_lags() l;
