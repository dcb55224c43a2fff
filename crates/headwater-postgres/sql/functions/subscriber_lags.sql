-- headwater.subscriber_lags()
-- How far the subscribers of all namespaces are behind, for a monitor: the view headwater.subscriber_lag. One statement of lookups,
-- whatever the length of the logs and the number of namespaces. The function runs
-- as whoever asks the view, so that each sees the namespaces that were granted.
--   lag_events   at most so many events, lag_seconds: how long the first of them has been there
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.subscriber_lags(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, mode text, partitions int, "position" bigint, lag_events bigint, lag_seconds double precision,
               paused boolean, owner_node text, dead_letters bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT n.namespace, s.subscriber_id, s.mode, s.partitions, coalesce(q.position, s.position),
           CASE WHEN ahead.recorded_at IS NULL THEN 0 ELSE greatest(newest.sequence - p.sequence, 1) END,
           coalesce(greatest(extract(epoch FROM clock_timestamp() - ahead.recorded_at), 0), 0)::double precision, s.paused, s.owner_node,
           coalesce(letters.open, 0)
      FROM headwater_private.namespaces n
      JOIN unnest(headwater_private.granted_to(caller, 'consumer')) AS a(namespace_id) ON a.namespace_id = n.namespace_id
      -- The partition that is furthest behind.
      JOIN (SELECT DISTINCT ON (s.namespace_id, s.subscriber_id) s.namespace_id, s.subscriber_id, s.mode, s.partitions, s.position, s.paused, s.owner_node
              FROM headwater_private.subscribers s
             ORDER BY s.namespace_id, s.subscriber_id,
                      CASE WHEN s.partitions > 1
                           THEN least(s.position, (headwater_private.ledger_cover(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps))[1] - 1) END,
                      s.position, s.partition) s ON s.namespace_id = n.namespace_id
      LEFT JOIN headwater_private.queue_positions q ON q.namespace_id = s.namespace_id AND q.subscriber_id = s.subscriber_id
     CROSS JOIN LATERAL (SELECT coalesce(q.frontier, s.position) AS sequence) p
     -- As in next_recorded_at and newest_sequence, whose calls would cost more than the lookups.
     CROSS JOIN LATERAL (
            SELECT CASE WHEN n.storage = 'shared' AND p.sequence >= n.tail_after
                        THEN (SELECT e.recorded_at FROM headwater_private.events e
                               WHERE e.namespace_id = n.namespace_id AND e.global_sequence > p.sequence AND e.recorded_at >= n.tail_from
                               ORDER BY e.global_sequence LIMIT 1)
                        ELSE headwater_private.next_recorded_at(n.namespace_id, p.sequence) END AS recorded_at) ahead
     CROSS JOIN LATERAL (
            SELECT CASE WHEN ahead.recorded_at IS NULL THEN NULL
                        WHEN n.storage = 'shared'
                        THEN greatest(n.tail_after, (SELECT e.global_sequence FROM headwater_private.events e
                                                      WHERE e.namespace_id = n.namespace_id AND e.recorded_at >= n.tail_from
                                                      ORDER BY e.global_sequence DESC LIMIT 1))
                        ELSE headwater_private.newest_sequence(n) END AS sequence) newest
      LEFT JOIN (SELECT d.namespace_id, d.subscriber_id, count(*) AS open FROM headwater_private.dead_letters d
                  WHERE d.state IN ('dead', 'parked', 'redriving') GROUP BY d.namespace_id, d.subscriber_id) letters
             ON letters.namespace_id = s.namespace_id AND letters.subscriber_id = s.subscriber_id
     ORDER BY n.namespace, s.subscriber_id;
END
$$;
CREATE OR REPLACE VIEW headwater.subscriber_lag AS SELECT l.* FROM headwater.subscriber_lags() l;
