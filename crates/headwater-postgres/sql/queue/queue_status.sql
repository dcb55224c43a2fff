-- headwater.queue_status(namespace, only_subscriber)
-- Public: in docs/sql.md.
-- Returns the shared subscribers of a namespace, or one of them, as operators see them. Reads
-- claims and retries, never the log.
--   position    everything at or below is settled
--   frontier    everything at or below was claimed, except the gaps and the events that were left
--               behind for workers of other types
--   claims      claims that are held
--   in_flight   an upper bound for the number of events in these claims
--   retries     events to deliver again, now or later
--   left_behind events of these types wait for a worker that handles them
--   event_types what the queue takes, as patterns (NULL: all types)
--   workers     nodes that run a worker of it, and other workers that hold claims
--   rate        events per second that these nodes handle
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.queue_status(namespace text, only_subscriber text DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (subscriber_id text, "position" bigint, frontier bigint, claims bigint, in_flight bigint, retries bigint, gaps bigint[],
               left_behind text[], event_types text[], workers bigint, rate double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(queue_status.namespace, caller, 'consumer');
BEGIN
    RETURN QUERY
    SELECT q.subscriber_id, q.position, q.frontier, q.claims, q.in_flight, q.retries, q.gaps, q.left_behind,
           q.event_types, q.workers, q.rate
      FROM headwater_private.queue_positions q
     WHERE q.namespace_id = ns.namespace_id AND (queue_status.only_subscriber IS NULL OR q.subscriber_id = queue_status.only_subscriber)
     ORDER BY q.subscriber_id;
END
$$;
-- The subscribers with one partition, of all namespaces, and where their queues stand if they are
-- shared. There is one view for both, so a query for all subscribers reads the table once. The view
-- joins sets: a lookup per queue costs ten times as much for ten thousand queues, and the rows of
-- one namespace are found by index either way. So it adds up rows of all namespaces before the
-- caller's are chosen: no value that a tenant can write may make a sum fail. The newest claim
-- carries the state, as in headwater_private.queue_states.
CREATE OR REPLACE VIEW headwater_private.places AS
SELECT s.namespace_id, s.subscriber_id, s.mode,
       CASE s.mode WHEN 'shared'
                   THEN least(coalesce(c.frontier, s.position), held.lowest - 1, again.lowest - 1,
                              CASE WHEN cardinality(c.open) > 0 THEN (SELECT min(o.first_sequence) FROM unnest(c.open) o) END - 1,
                              (coalesce(c.gaps, s.pending_gaps))[1] - 1)
                   ELSE s.position END AS position,
       coalesce(c.frontier, s.position) AS frontier, coalesce(held.claims, 0) AS claims, coalesce(held.events, 0) AS in_flight,
       coalesce(again.events, 0) AS retries, coalesce(c.gaps, s.pending_gaps) AS gaps,
       CASE WHEN cardinality(c.open) > 0 THEN (SELECT array_agg(DISTINCT o.event_type) FROM unnest(c.open) o) ELSE '{}' END AS left_behind,
       s.paused, s.owner_node, s.event_types, (SELECT count(DISTINCT n) FROM unnest(held.workers || w.nodes) n) AS workers,
       coalesce(w.rate, 0) AS rate
  FROM headwater_private.subscribers s
  LEFT JOIN (SELECT DISTINCT ON (c.namespace_id, c.subscriber_id) c.namespace_id, c.subscriber_id,
                    (c.state).frontier AS frontier, (c.state).gaps AS gaps, (c.state).open AS open
               FROM headwater_private.claims c ORDER BY c.namespace_id DESC, c.subscriber_id DESC, c.number DESC) c
         ON c.namespace_id = s.namespace_id AND c.subscriber_id = s.subscriber_id
  LEFT JOIN (SELECT c.namespace_id, c.subscriber_id, min(coalesce(c.sequences[1], c.first_sequence)) FILTER (WHERE NOT c.of_letter) AS lowest,
                    count(*) AS claims,
                    least(sum(coalesce(cardinality(c.sequences), c.last_sequence - c.first_sequence + 1)), 9223372036854775807)::bigint AS events,
                    array_agg(DISTINCT c.worker) AS workers
               FROM headwater_private.claims c WHERE NOT c.done GROUP BY c.namespace_id, c.subscriber_id) held
         ON held.namespace_id = s.namespace_id AND held.subscriber_id = s.subscriber_id
  LEFT JOIN (SELECT r.namespace_id, r.subscriber_id, min(r.sequences[1]) FILTER (WHERE NOT r.of_letter) AS lowest, sum(cardinality(r.sequences)) AS events
               FROM headwater_private.retries r GROUP BY r.namespace_id, r.subscriber_id) again
         ON again.namespace_id = s.namespace_id AND again.subscriber_id = s.subscriber_id
  LEFT JOIN (SELECT w.namespace_id, w.subscriber_id, array_agg(w.node) AS nodes, sum(w.rate) AS rate
               FROM headwater_private.queue_workers w WHERE w.seen_until > clock_timestamp() GROUP BY w.namespace_id, w.subscriber_id) w
         ON w.namespace_id = s.namespace_id AND w.subscriber_id = s.subscriber_id
 WHERE s.partition = 0 AND (s.partitions = 1 OR s.mode = 'shared');
-- What headwater.queue_status returns, for all namespaces.
CREATE OR REPLACE VIEW headwater_private.queue_positions AS
SELECT p.namespace_id, p.subscriber_id, p.position, p.frontier, p.claims, p.in_flight, p.retries, p.gaps, p.left_behind, p.paused, p.owner_node,
       p.event_types, p.workers, p.rate
  FROM headwater_private.places p WHERE p.mode = 'shared';
-- The shared subscribers of all namespaces.
CREATE OR REPLACE VIEW headwater_private.queue_places AS
SELECT q.namespace_id, q.subscriber_id, 'shared' COLLATE "C" AS mode, 1 AS partitions, q.position, q.frontier AS place, q.paused, q.owner_node,
       q.claims, q.in_flight, q.retries::bigint AS retries, q.left_behind, q.event_types, q.workers, q.rate
  FROM headwater_private.queue_positions q;
