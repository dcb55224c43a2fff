-- headwater.find_events(namespace_id, event_ids)
-- The stored events with these ids, in no order.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.find_events(namespace_id int, event_ids uuid[])
RETURNS SETOF headwater.events LANGUAGE sql STABLE AS $$
    SELECT e.* FROM headwater.events e
     WHERE e.namespace_id = find_events.namespace_id AND e.event_id = ANY (find_events.event_ids)
     LIMIT CASE WHEN NOT headwater.require_reader(find_events.namespace_id) THEN 0 END
$$;
