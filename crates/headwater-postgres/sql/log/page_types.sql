-- headwater_private.page_types(namespace_id, event_types)
-- Decides how to read a page of some event types. In a type, * stands for any characters.
--   types    the types, or LIKE patterns
--   likes    whether they are patterns
--   indexed  whether the namespace has a type index that is ready, and the types are whole: use the
--   index in this snapshot
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.page_types(namespace_id int, event_types text[], OUT types text[], OUT likes boolean, OUT indexed boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- With this many types, reading the log costs less.
    most    constant int := 1000;
    present text[];
BEGIN
    types := event_types;
    likes := false;
    indexed := types IS NOT NULL AND headwater_private.has_index(page_types.namespace_id);
    IF position('*' IN array_to_string(types, '')) > 0 THEN
        types := headwater_private.as_likes(types);
        likes := true;
        IF indexed THEN
            present := headwater_private.indexed_types(page_types.namespace_id, most);
            indexed := cardinality(present) < most;
            IF indexed THEN
                types := ARRAY(SELECT p.type FROM unnest(present) AS p(type) WHERE p.type LIKE ANY (page_types.types));
                likes := false;
            END IF;
        END IF;
    END IF;
END
$$;
