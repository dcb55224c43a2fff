-- headwater_private.check_letters(events, attempts)
-- Checks the events and the attempts of dead letters that a caller brings, as JSON. Everybody who
-- lists dead letters must be able to read them: one that cannot be read would end the list. NULL
-- means not given.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_letters(events text[], attempts text[])
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given text;
BEGIN
    FOREACH given IN ARRAY coalesce(check_letters.attempts, '{}') LOOP
        IF NOT headwater_private.are_attempts(given::jsonb) THEN
            PERFORM headwater_private.fail('WH002', 'invalid attempts of a dead letter', jsonb_build_object('what', 'attempts', 'value', left(given, 200)),
                'attempts are a list of objects with `at` (a time), `node` (text) and `errors` (texts)');
        END IF;
    END LOOP;
    FOREACH given IN ARRAY coalesce(check_letters.events, '{}') LOOP
        IF NOT headwater_private.is_event(given::jsonb) THEN
            PERFORM headwater_private.fail('WH002', 'invalid event of a dead letter', jsonb_build_object('what', 'event', 'value', left(given, 200)),
                'an event is an object as headwater.list_dead_letters shows it');
        END IF;
    END LOOP;
END
$$;
