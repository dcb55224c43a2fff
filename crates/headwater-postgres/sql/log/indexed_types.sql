-- headwater_private.indexed_types(namespace_id, max_types)
-- Returns the types in a namespace's type index, by name. It takes one lookup per type, however
-- many events there are.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.indexed_types(namespace_id int, max_types int)
RETURNS text[] LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    types text[] := '{}';
    next_ text;
BEGIN
    WHILE cardinality(types) < max_types LOOP
        SELECT i.event_type INTO next_ FROM headwater_private.type_index i
         WHERE i.namespace_id = indexed_types.namespace_id AND i.event_type > coalesce(next_, '') ORDER BY i.event_type LIMIT 1;
        EXIT WHEN NOT FOUND;
        types := types || next_;
    END LOOP;
    RETURN types;
END
$$;
