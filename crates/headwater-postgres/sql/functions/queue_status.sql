-- headwater.queue_status(namespace, only_subscriber)
-- Public: in docs/sql.md.
-- The shared subscribers of a namespace, or one, as operators see them. Looks at claims and retries, never at the log.
--   position    everything at or below is settled
--   frontier    everything at or below was claimed, but for the gaps, and what was left behind for workers of other types
--   claims      that are held, and in_flight: at most so many events
--   retries     events to deliver again, now or later
--   left_behind events of these types wait for a worker that handles them
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.queue_status(namespace text, only_subscriber text DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (subscriber_id text, "position" bigint, frontier bigint, claims bigint, in_flight bigint, retries bigint, gaps bigint[],
               left_behind text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(queue_status.namespace, caller, 'consumer');
BEGIN
    RETURN QUERY
    SELECT s.subscriber_id,
           least(coalesce((n.state).frontier, s.position), held.lowest - 1, again.lowest - 1, open.lowest - 1,
                 (coalesce((n.state).gaps, s.pending_gaps))[1] - 1),
           coalesce((n.state).frontier, s.position), coalesce(held.claims, 0), coalesce(held.events, 0), coalesce(again.events, 0),
           coalesce((n.state).gaps, s.pending_gaps), coalesce(open.types, '{}')
      FROM headwater_private.subscribers s
      LEFT JOIN LATERAL (SELECT c.state FROM headwater_private.claims c
                          WHERE c.namespace_id = s.namespace_id AND c.subscriber_id = s.subscriber_id
                          ORDER BY c.number DESC LIMIT 1) n ON true
      LEFT JOIN LATERAL (SELECT min(coalesce(c.sequences[1], c.first_sequence)) FILTER (WHERE NOT c.of_letter) AS lowest, count(*) AS claims,
                                sum(coalesce(cardinality(c.sequences), c.last_sequence - c.first_sequence + 1))::bigint AS events
                           FROM headwater_private.claims c
                          WHERE c.namespace_id = s.namespace_id AND c.subscriber_id = s.subscriber_id AND NOT c.done) held ON true
      LEFT JOIN LATERAL (SELECT min(r.sequences[1]) FILTER (WHERE NOT r.of_letter) AS lowest, sum(cardinality(r.sequences)) AS events
                           FROM headwater_private.retries r
                          WHERE r.namespace_id = s.namespace_id AND r.subscriber_id = s.subscriber_id) again ON true
      LEFT JOIN LATERAL (SELECT min(o.first_sequence) AS lowest, array_agg(DISTINCT o.event_type) AS types
                           FROM unnest((n.state).open) o) open ON true
     WHERE s.namespace_id = ns.namespace_id AND s.partition = 0 AND s.mode = 'shared'
       AND (queue_status.only_subscriber IS NULL OR s.subscriber_id = queue_status.only_subscriber)
     ORDER BY s.subscriber_id;
END
$$;
