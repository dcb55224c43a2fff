-- headwater_private.has_index(namespace_id)
-- Whether all events of a namespace that this snapshot shows are in its index by type.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.has_index(namespace_id int)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM headwater_private.index_states i WHERE i.namespace_id = has_index.namespace_id AND i.state = 'ready');
END
$$;
