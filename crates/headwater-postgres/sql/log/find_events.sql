-- headwater.find_events(namespace_id, event_ids)
-- Returns the stored events with these ids, in no particular order.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.find_events(namespace_id int, event_ids uuid[], caller headwater.caller DEFAULT current_user)
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.authorize(find_events.namespace_id, caller, 'consumer');
    -- Once a single event was found, older months are not searched for it.
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events,
               'SELECT e.* FROM %s e WHERE %s AND e.namespace_id = $1 AND e.event_id = ANY ($12) LIMIT $4',
               find_events.namespace_id, max_rows => CASE WHEN cardinality(find_events.event_ids) = 1 THEN 1 END, ids => find_events.event_ids,
               newest_first => true) e;
END
$$;
