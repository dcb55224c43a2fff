-- headwater_private.check_timezone(timezone)
-- Checks that a time zone is a named zone, such as Europe/Copenhagen or UTC. The server would also
-- take abbreviations, such as CEST, and custom rules, such as XYZ+3. They are refused: they know no
-- change of clocks, or are misspelt.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_timezone(timezone text)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- The server reads the whole list of names from files. So use the list only where the server
    -- would take more than names.
    IF check_timezone.timezone = 'UTC'
       OR (check_timezone.timezone !~ '^[A-Za-z_]+(/[A-Za-z_-]+)+$'
           AND EXISTS (SELECT FROM pg_timezone_names z WHERE lower(z.name) = lower(check_timezone.timezone))) THEN
        RETURN;
    ELSIF check_timezone.timezone ~ '^[A-Za-z_]+(/[A-Za-z_-]+)+$' THEN
        BEGIN
            PERFORM now() AT TIME ZONE check_timezone.timezone;
            RETURN;
        EXCEPTION WHEN invalid_parameter_value THEN
            NULL;
        END;
    END IF;
    PERFORM headwater_private.fail('WH002', format('unknown time zone %L', coalesce(left(check_timezone.timezone, 80), 'NULL')),
        jsonb_build_object('what', 'timezone', 'value', left(check_timezone.timezone, 80)),
        'a time zone has a name, as Europe/Copenhagen or UTC: see SELECT name FROM pg_timezone_names');
END
$$;
