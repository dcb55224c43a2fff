-- headwater.find_events(namespace_id, event_ids)
-- The stored events with these ids, in no order.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.find_events(namespace_id int, event_ids uuid[], caller headwater.caller DEFAULT current_user)
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.authorize(find_events.namespace_id, caller, 'consumer');
    RETURN QUERY EXECUTE headwater_private.over_months(
        'SELECT e.* FROM %s e WHERE %s AND e.namespace_id = $1 AND e.event_id = ANY ($2)', find_events.namespace_id)
        USING find_events.namespace_id, find_events.event_ids;
END
$$;
