-- headwater_private.check_time(what, value, latest)
-- Checks a time that a caller gave. NULL means not given. A time that is infinite, before the year
-- 1 or after 9999 is refused: most languages cannot read it.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_time(what text, value timestamptz, latest timestamptz DEFAULT '9999-12-31 23:59:59.999999+00')
RETURNS void LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given text;
BEGIN
    IF value NOT BETWEEN '0001-01-01 00:00:00+00' AND latest THEN
        given := to_jsonb(value AT TIME ZONE 'UTC') #>> '{}';
        PERFORM headwater_private.fail('WH002', format('invalid %s %s', what, given), jsonb_build_object('what', what, 'value', given),
            format('%s is a time from the year 1 to %s', what, to_char(latest AT TIME ZONE 'UTC', 'YYYY-MM-DD')));
    END IF;
END
$$;
