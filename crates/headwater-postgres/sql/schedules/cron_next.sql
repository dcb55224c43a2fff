-- headwater_private.cron_next(expression, timezone, after)
-- Returns the first due time of a cron expression later than `after`. cron_fields describes the
-- expression, and cron_after what happens when clocks are changed. NULL: there is none in eight
-- years, as for the 30th of February.
-- Raises: WH002 (bad expression, unknown time zone). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cron_next(expression text, timezone text DEFAULT 'UTC', after timestamptz DEFAULT NULL)
RETURNS timestamptz LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.check_timezone(cron_next.timezone);
    PERFORM headwater_private.check_time('after', cron_next.after);
    RETURN headwater_private.cron_after(headwater_private.cron_fields(cron_next.expression), cron_next.timezone, coalesce(cron_next.after, clock_timestamp()));
END
$$;
