-- headwater.subscriber_lags()
-- How far the subscribers of all namespaces are behind, for a monitor: the view headwater.subscriber_lag. See headwater_private.lags_query for what it costs.
-- The function runs as whoever asks the view, so that each sees the namespaces that were granted.
--   lag_events   at most so many events, lag_seconds: how long the first of them has been there
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.subscriber_lags(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, mode text, partitions int, "position" bigint, lag_events bigint, lag_seconds double precision,
               paused boolean, owner_node text, dead_letters bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET jit = off SET enable_nestloop = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.namespace, l.subscriber_id, l.mode, l.partitions, l.position, l.lag_events, l.lag_seconds, l.paused, l.owner_node, l.dead_letters
           FROM (' || headwater_private.lags_query('subscriber_places', headwater_private.only_granted(caller, 'consumer')) || ') l';
END
$$;
CREATE OR REPLACE VIEW headwater.subscriber_lag AS SELECT l.* FROM headwater.subscriber_lags() l;
-- The subscribers of all namespaces. Of one with several partitions, the partition that is furthest behind.
CREATE OR REPLACE VIEW headwater_private.subscriber_places AS
SELECT p.namespace_id, p.subscriber_id, p.mode, 1 AS partitions, p.position, p.frontier AS place, p.paused, p.owner_node FROM headwater_private.places p
 UNION ALL
(SELECT DISTINCT ON (s.namespace_id, s.subscriber_id) s.namespace_id, s.subscriber_id, s.mode, s.partitions, s.position, s.position, s.paused, s.owner_node
   FROM headwater_private.subscribers s WHERE s.partitions > 1
  ORDER BY s.namespace_id, s.subscriber_id,
           least(s.position, (headwater_private.ledger_cover(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps))[1] - 1), s.position, s.partition);
