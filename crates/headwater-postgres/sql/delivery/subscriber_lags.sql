-- headwater.subscriber_lags()
-- Returns how far the subscribers of all namespaces are behind, for a monitor: the view
-- headwater.subscriber_lag. headwater_private.lags_query says what it costs. The function runs with
-- the rights of the role that queries the view, so each role sees the namespaces that it was
-- granted.
--   lag_events   an upper bound for the number of events it is behind. Of a shared subscriber: the
--                events that wait for a claim
--   lag_seconds  how long the first of them has been there
-- These are for shared subscribers only, and NULL for all others. owner_node of a shared subscriber
-- is NULL, since nobody owns it.
--   workers      nodes that run a worker of it, and other workers that hold claims
--   in_flight    an upper bound for the number of events in claims
--   retries      events to deliver again
--   left_behind  events of these types wait for a worker that handles them
--   rate         events per second that its nodes handle
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.subscriber_lags(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, mode text, partitions int, "position" bigint, lag_events bigint, lag_seconds double precision,
               paused boolean, owner_node text, dead_letters bigint, workers bigint, in_flight bigint, retries bigint, left_behind text[],
               rate double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET jit = off SET enable_nestloop = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.namespace, l.subscriber_id, l.mode, l.partitions, l.position, l.lag_events, l.lag_seconds, l.paused, l.owner_node, l.dead_letters,
                l.workers, l.in_flight, l.retries, l.left_behind, l.rate
           FROM (' || headwater_private.lags_query('subscriber_places', headwater_private.only_granted(caller, 'consumer')) || ') l';
END
$$;
CREATE OR REPLACE VIEW headwater.subscriber_lag AS SELECT l.* FROM headwater.subscriber_lags() l;
-- The subscribers of all namespaces. A subscriber with several partitions is represented by the
-- partition that is furthest behind.
CREATE OR REPLACE VIEW headwater_private.subscriber_places AS
SELECT p.namespace_id, p.subscriber_id, p.mode, 1 AS partitions, p.position, p.frontier AS place, p.paused, p.owner_node,
       CASE p.mode WHEN 'shared' THEN p.workers END AS workers, CASE p.mode WHEN 'shared' THEN p.in_flight END AS in_flight,
       CASE p.mode WHEN 'shared' THEN p.retries::bigint END AS retries, CASE p.mode WHEN 'shared' THEN p.left_behind END AS left_behind,
       CASE p.mode WHEN 'shared' THEN p.rate END AS rate
  FROM headwater_private.places p
 UNION ALL
(SELECT DISTINCT ON (s.namespace_id, s.subscriber_id) s.namespace_id, s.subscriber_id, s.mode, s.partitions, s.position, s.position, s.paused, s.owner_node,
        NULL::bigint, NULL::bigint, NULL::bigint, NULL::text[], NULL::double precision
   FROM headwater_private.subscribers s WHERE s.partitions > 1
  ORDER BY s.namespace_id, s.subscriber_id,
           least(s.position, (headwater_private.ledger_cover(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps))[1] - 1), s.position, s.partition);
