-- headwater_private.check_max_events(max_events)
-- Checks the size of a page.
-- Raises: WH002 unless max_events is 1 to 100,000. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_max_events(max_events int)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF max_events BETWEEN 1 AND 100000 THEN
        RETURN;
    END IF;
    PERFORM headwater_private.fail('WH002', format('invalid max_events %s', coalesce(max_events::text, 'NULL')),
        jsonb_build_object('what', 'max_events', 'value', max_events), 'max_events is 1 to 100000; read on from the last event');
END
$$;
