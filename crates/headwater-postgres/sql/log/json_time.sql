-- headwater_private.json_time(what, value)
-- Parses a time in JSON, in ISO 8601 form, such as 2026-11-16T12:00:00Z. Without an offset it is
-- UTC. The session's settings for dates and times do not matter.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.json_time(what text, value text)
RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET timezone = 'UTC' AS $$
DECLARE
    moment timestamptz;
BEGIN
    IF value IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        moment := CASE WHEN value ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)' THEN value::timestamptz END;
    EXCEPTION WHEN data_exception THEN
        NULL;
    END;
    IF moment IS NULL THEN
        PERFORM headwater_private.fail('WH002', format('invalid %s %L', what, left(value, 80)), jsonb_build_object('what', what, 'value', left(value, 80)),
            format('%s is a time in the form of ISO 8601, as 2026-11-16T12:00:00Z', what));
    END IF;
    PERFORM headwater_private.check_time(what, moment);
    RETURN moment;
END
$$;
