-- headwater_private.types_taken(event_types, takes)
-- Returns which of some event types match one of `takes`, in which * stands for any characters
-- (NULL: all types). The result is NULL if none of them does.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.types_taken(event_types text[], takes text[])
RETURNS text[] LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF event_types IS NULL OR takes IS NULL THEN
        RETURN event_types;
    ELSIF takes = '{}' THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT array_agg(t.event_type) FROM unnest(types_taken.event_types) AS t(event_type)
             WHERE headwater_private.matches_pattern(t.event_type, takes));
END
$$;
