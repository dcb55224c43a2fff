-- headwater_private.has_index(namespace_id)
-- Returns whether the type index of a namespace holds all events that this snapshot shows.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.has_index(namespace_id int)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM headwater_private.index_states i WHERE i.namespace_id = has_index.namespace_id AND i.state = 'ready');
END
$$;
