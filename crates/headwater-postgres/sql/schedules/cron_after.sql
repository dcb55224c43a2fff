-- headwater_private.cron_after(c, timezone, after)
-- Returns the first due time of a parsed cron expression later than `after`. NULL: there is none in
-- eight years, or before the year 10000.
-- When clocks are set forward, a fixed time that is skipped is due at the first moment after the
-- change; times of a wildcard or step are not. When clocks are set back, a fixed time is due once,
-- the first time that the clocks show it; times of a wildcard or step are due both times. So a job
-- at 02:30 runs once a day, and a job every 20 minutes keeps its pace, as with Vixie cron.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cron_after(c headwater_private.cron, timezone text, after timestamptz)
RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    local   timestamp := date_trunc('second', after AT TIME ZONE timezone);
    due     timestamptz := headwater_private.cron_walk(c, timezone, local, after);
    moments record;
    changed timestamptz;
BEGIN
    IF NOT c.fixed_time THEN
        moments := headwater_private.clock_shows(timezone, local);
        -- The clocks will show this time again. A time that they show after their change may be
        -- earlier on the clock, and still comes next.
        IF moments.second > after AND moments.second > moments.first THEN
            changed := headwater_private.clock_change(timezone, moments.first, moments.second);
            due := least(due, headwater_private.cron_walk(c, timezone, (changed AT TIME ZONE timezone) - interval '1 second', changed - interval '1 second'));
        END IF;
    END IF;
    RETURN CASE WHEN due < '10000-01-01 00:00:00+00' THEN due END;
END
$$;
