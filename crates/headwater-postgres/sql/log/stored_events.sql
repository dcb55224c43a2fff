-- headwater_private.stored_events(namespace_id, event_ids)
-- Returns what an append needs to know about events with these ids that are stored already. A
-- producer need not be allowed to read.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.stored_events(namespace_id int, event_ids uuid[])
RETURNS TABLE (event_id uuid, event_type text, stream_id text, global_sequence bigint, stream_version bigint) LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = stored_events.namespace_id;
    RETURN QUERY
    SELECT e.event_id, e.event_type, e.stream_id, e.global_sequence, e.stream_version
      FROM headwater_private.by_month(
               NULL::headwater_private.events, 'SELECT e.* FROM %s e WHERE %s AND e.namespace_id = $1 AND e.event_id = ANY ($12)',
               stored_events.namespace_id, ids => stored_events.event_ids, newest_first => true,
               -- Sealed months have no higher id than sealed_max_id.
               from_at => CASE WHEN ns.sealed_max_id < ALL (stored_events.event_ids) THEN ns.sealed_before END) e;
END
$$;
