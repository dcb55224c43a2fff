-- headwater_private.types_outside(event_types, takes)
-- Returns which of some event types a queue does not take. `takes` has the types that it takes
-- (NULL: all types). In both, * stands for any characters. The result is NULL if the queue takes
-- them all. A pattern is covered by another pattern if the other one matches the text of the first,
-- with the first one's * as an ordinary character: whatever the first * stands for, the * of the
-- other pattern can stand for it too.
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
