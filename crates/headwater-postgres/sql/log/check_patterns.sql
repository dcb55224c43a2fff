-- headwater_private.check_patterns(patterns)
-- Checks a list of event types, in which * may stand for any characters.
-- Raises: WH002 if it is not such a list. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_patterns(patterns text[])
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pattern text;
BEGIN
    IF array_ndims(patterns) > 1 OR cardinality(patterns) > 10000 THEN
        PERFORM headwater_private.fail('WH002', format('invalid event_types: %s of them', cardinality(patterns)),
            jsonb_build_object('what', 'event_types'), 'a node handles up to 10000 event types, in which * may stand for any characters');
    END IF;
    FOREACH pattern IN ARRAY coalesce(patterns, '{}') LOOP
        PERFORM headwater_private.check_name('event_type', coalesce(pattern, ''), 255);
    END LOOP;
END
$$;
