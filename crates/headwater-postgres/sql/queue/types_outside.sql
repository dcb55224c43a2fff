-- headwater_private.types_outside(event_types, takes)
-- Returns those of some event types, in which * stands for any characters, that a queue does not
-- take by `takes` (NULL: it takes all types). NULL: it takes them all. A pattern lies in another
-- one if that one matches the pattern's text, with its * as an ordinary character: whatever the
-- first * stands for, the * of the other one can stand for it too.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.types_outside(event_types text[], takes text[])
RETURNS text[] LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF takes IS NULL OR event_types <@ takes THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT array_agg(t.event_type) FROM unnest(types_outside.event_types) AS t(event_type)
             WHERE NOT headwater_private.matches_pattern(t.event_type, takes));
END
$$;
