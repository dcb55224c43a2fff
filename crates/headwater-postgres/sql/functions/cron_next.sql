-- headwater_private.cron_next(expression, timezone, after)
-- The first due time of a cron expression later than `after`; see cron_fields for what it may be, and cron_after for what happens when clocks are changed.
-- NULL: there is none in eight years, as on the 30th of February.
-- Raises: WH002 (bad expression, unknown time zone). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cron_next(expression text, timezone text DEFAULT 'UTC', after timestamptz DEFAULT NULL)
RETURNS timestamptz LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.check_timezone(cron_next.timezone);
    PERFORM headwater_private.check_time('after', cron_next.after);
    RETURN headwater_private.cron_after(headwater_private.cron_fields(cron_next.expression), cron_next.timezone, coalesce(cron_next.after, clock_timestamp()));
END
$$;
