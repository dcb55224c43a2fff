-- headwater_private.highest_event(namespace_id)
-- Returns the highest sequence of an event that this snapshot shows, even if its month is trimmed;
-- 0: there is none. It reads the namespace again: a row that was read before waiting for a lock may
-- not name the months that were sealed in the meantime.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.highest_event(namespace_id int)
RETURNS bigint LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT headwater_private.newest_sequence(n) FROM headwater_private.namespaces n WHERE n.namespace_id = highest_event.namespace_id);
END
$$;
