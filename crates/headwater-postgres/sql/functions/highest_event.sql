-- headwater_private.highest_event(namespace_id)
-- The highest sequence of an event that this snapshot shows, also if its month is trimmed; 0: there is none. It reads the namespace anew: what was read before a lock was waited for may not name the months that
-- were sealed meanwhile.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.highest_event(namespace_id int)
RETURNS bigint LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT headwater_private.newest_sequence(n) FROM headwater_private.namespaces n WHERE n.namespace_id = highest_event.namespace_id);
END
$$;
