-- headwater_private.cron_fields(expression)
-- Parses a cron expression: five fields (minute, hour, day of month, month, day of week), or six
-- with the second in front. A field is *, a value, a range 1-5, a step */15 or 1-30/5, or a list of
-- these. Months and days of the week have names (JAN, MON; Sunday is 0 and 7). L is a month's last
-- day, FRI#2 its second Friday, FRIL its last Friday. @yearly, @monthly, @weekly, @daily and
-- @hourly stand for expressions.
-- If both day fields are restricted (neither begins with *), a day that matches one of them is due,
-- as in Vixie cron.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cron_fields(expression text)
RETURNS headwater_private.cron LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    plain text := btrim(cron_fields.expression, E' \t\n\r');
    f     text[];
    c     headwater_private.cron;
BEGIN
    plain := CASE lower(plain)
        WHEN '@yearly' THEN '0 0 1 1 *' WHEN '@annually' THEN '0 0 1 1 *' WHEN '@monthly' THEN '0 0 1 * *' WHEN '@weekly' THEN '0 0 * * 0'
        WHEN '@daily' THEN '0 0 * * *' WHEN '@midnight' THEN '0 0 * * *' WHEN '@hourly' THEN '0 * * * *' ELSE plain END;
    f := CASE WHEN octet_length(plain) <= 1000 THEN regexp_split_to_array(plain, '[[:space:]]+') END;
    IF cardinality(f) = 5 THEN
        f := ARRAY['0'] || f;
    ELSIF f IS NULL OR cardinality(f) <> 6 THEN
        PERFORM headwater_private.fail('WH002',
            format('invalid cron expression %L: it has %s fields', coalesce(left(cron_fields.expression, 80), 'NULL'), coalesce(cardinality(f), 0)),
            jsonb_build_object('what', 'cron_expression', 'value', left(cron_fields.expression, 80)),
            'it has 5 fields (minute, hour, day of month, month, day of week), or 6 with the second in front, or is @hourly, @daily, @weekly, @monthly or @yearly');
    END IF;
    c.seconds := headwater_private.cron_field(plain, 'second', f[1], 0, 59, NULL);
    c.minutes := headwater_private.cron_field(plain, 'minute', f[2], 0, 59, NULL);
    c.hours := headwater_private.cron_field(plain, 'hour', f[3], 0, 23, NULL);
    c.days := headwater_private.cron_field(plain, 'day of month', f[4], 1, 31, NULL);
    c.months := headwater_private.cron_field(plain, 'month', f[5], 1, 12, '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}');
    c.weekdays := headwater_private.cron_field(plain, 'day of week', f[6], 0, 7, '{SUN,MON,TUE,WED,THU,FRI,SAT}');
    c.either_day := f[4] !~ '^[*?]' AND f[6] !~ '^[*?]';
    c.fixed_time := f[1] || f[2] || f[3] !~ '[*?/]';
    RETURN c;
END
$$;
