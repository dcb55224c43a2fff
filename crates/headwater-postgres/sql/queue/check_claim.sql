-- headwater_private.check_claim(event_types, worker, max_attempts, max_scan)
-- Checks arguments of a claim.
-- Raises: WH002 if one of them is invalid. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_claim(event_types text[], worker text, max_attempts int, max_scan bigint)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF event_types = '{}' OR array_ndims(event_types) > 1 OR array_position(event_types, NULL) IS NOT NULL THEN
        PERFORM headwater_private.fail('WH002', 'invalid event_types', jsonb_build_object('what', 'event_types', 'value', event_types),
            'event_types are the types to claim, at least one, in which * may stand for any characters; NULL: all');
    END IF;
    IF worker IS NOT NULL THEN
        PERFORM headwater_private.check_name('worker', worker, 255);
    END IF;
    IF coalesce(max_attempts < 1, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid max_attempts %s', coalesce(max_attempts::text, 'NULL')),
            jsonb_build_object('what', 'max_attempts', 'value', max_attempts), 'max_attempts is 1 or more');
    END IF;
    IF max_scan < 1 THEN
        PERFORM headwater_private.fail('WH002', format('invalid max_scan %s', max_scan),
            jsonb_build_object('what', 'max_scan', 'value', max_scan), 'max_scan is 1 or more, or NULL for no limit');
    END IF;
END
$$;
