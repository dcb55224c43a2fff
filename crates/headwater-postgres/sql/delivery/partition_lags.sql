-- headwater.partition_lags()
-- Returns how far each partition of partitioned subscribers is behind, in all namespaces, for a
-- monitor: the view headwater.partition_lag. The only lookup in the log is the highest event of
-- each namespace, once. The function runs with the rights of the role that queries the view, so
-- each role sees the namespaces that it was granted.
--   lag_events   how far the log is ahead, in sequences, over all partitions: an upper bound for
--                the number of events; 0 if no event is ahead
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.partition_lags(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, partition int, "position" bigint, lag_events bigint, owner_node text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT h.namespace, s.subscriber_id, s.partition, s.position,
                CASE WHEN s.position < h.in_tail
                          OR s.position < h.newest AND EXISTS (SELECT FROM headwater_private.months m
                                                                WHERE m.namespace_id = s.namespace_id AND m.last_sequence > s.position AND m.trimmed_at IS NULL)
                     THEN h.newest - s.position ELSE 0 END, s.owner_node
           FROM headwater_private.subscribers s
           JOIN (' || headwater_private.heads_query(headwater_private.only_granted(caller, 'consumer'), headwater_private.tail_tables()) || ') h ON h.namespace_id = s.namespace_id
          WHERE s.mode = ''partitioned''';
END
$$;
CREATE OR REPLACE VIEW headwater.partition_lag AS SELECT l.* FROM headwater.partition_lags() l;
