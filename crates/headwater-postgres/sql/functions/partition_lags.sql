-- headwater.partition_lags()
-- How far each partition of partitioned subscribers is behind, of all namespaces, for a monitor: the view headwater.partition_lag. As cheap for each subscriber as
-- group_status. The function runs as whoever asks the view, so that each sees the namespaces that were granted.
--   lag_events   how far the log is ahead, in sequences: at most so many events, of all partitions
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.partition_lags(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, partition int, "position" bigint, lag_events bigint, owner_node text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT n.namespace, s.subscriber_id, g.partition, g.position, g.lag_events, g.owner_node
      FROM headwater_private.namespaces n
      JOIN (SELECT DISTINCT x.namespace_id, x.subscriber_id FROM headwater_private.subscribers x WHERE x.mode = 'partitioned') s
           ON s.namespace_id = n.namespace_id
     CROSS JOIN LATERAL headwater.group_status(n.namespace, s.subscriber_id) g
      JOIN unnest(headwater_private.granted_to(caller, 'consumer')) AS a(namespace_id) ON a.namespace_id = n.namespace_id
     ORDER BY n.namespace, s.subscriber_id, g.partition;
END
$$;
CREATE OR REPLACE VIEW headwater.partition_lag AS SELECT l.* FROM headwater.partition_lags() l;
