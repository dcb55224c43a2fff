-- headwater.find_events(namespace_id, event_ids)
-- The stored events with these ids, in no order.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.find_events(namespace_id int, event_ids uuid[], caller headwater.caller DEFAULT current_user)
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.authorize(find_events.namespace_id, caller, 'consumer');
    RETURN QUERY
    SELECT e.* FROM headwater_private.events e
     WHERE e.namespace_id = find_events.namespace_id AND e.event_id = ANY (find_events.event_ids);
END
$$;
