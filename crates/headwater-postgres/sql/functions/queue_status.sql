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
    SELECT q.subscriber_id, q.position, q.frontier, q.claims, q.in_flight, q.retries, q.gaps, q.left_behind
      FROM headwater_private.queue_positions q
     WHERE q.namespace_id = ns.namespace_id AND (queue_status.only_subscriber IS NULL OR q.subscriber_id = queue_status.only_subscriber)
     ORDER BY q.subscriber_id;
END
$$;
