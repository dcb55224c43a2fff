-- headwater_private.checked_types(event_types)
-- Returns the event types that a queue is to take, in the form in which they are stored: sorted,
-- each type once. NULL: all types.
-- Raises: WH002 if the list is empty, or if an element is not an event type, in which * may stand
-- for any characters. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.checked_types(event_types text[])
RETURNS text[] LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF event_types = '{}' THEN
        PERFORM headwater_private.fail('WH002', 'invalid event_types: none is given', jsonb_build_object('what', 'event_types', 'value', event_types),
            'event_types are the types that the queue takes, at least one, in which * may stand for any characters; NULL or *: all');
    END IF;
    PERFORM headwater_private.check_patterns(event_types);
    RETURN CASE WHEN event_types IS NULL OR '*' = ANY (event_types) THEN NULL ELSE ARRAY(SELECT DISTINCT t FROM unnest(event_types) t ORDER BY t) END;
END
$$;
