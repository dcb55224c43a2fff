-- headwater_private.check_interval(what, value, shortest, longest, hint)
-- Checks an interval that a caller gave: it is not NULL and lies within these bounds. So do its
-- parts, because PostgreSQL adds them to a time one by one, and could leave the range of times in
-- between.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_interval(what text, value interval, shortest interval, longest interval, hint text)
RETURNS void LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF value BETWEEN shortest AND longest AND abs(extract(year FROM value)) <= 1000 AND abs(extract(day FROM value)) <= 366000 THEN
        RETURN;
    END IF;
    -- In seconds: as text, an interval depends on the session's settings.
    PERFORM headwater_private.fail('WH002', format('invalid %s %s', what, coalesce(trim_scale(extract(epoch FROM value)::numeric) || ' s', 'NULL')),
        jsonb_build_object('what', what, 'value', trim_scale(extract(epoch FROM value)::numeric) || ' s'), hint);
END
$$;
