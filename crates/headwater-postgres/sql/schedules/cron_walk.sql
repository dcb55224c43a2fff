-- headwater_private.cron_walk(c, timezone, local, after)
-- Returns the first moment later than `after` at which the clocks show a time of a cron expression
-- that is later than `local`. NULL: there is none.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cron_walk(c headwater_private.cron, timezone text, local timestamp, after timestamptz)
RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    shown   timestamp := local;
    moments record;
BEGIN
    LOOP
        shown := headwater_private.cron_local_after(c, shown);
        IF shown IS NULL THEN
            RETURN NULL;
        END IF;
        moments := headwater_private.clock_shows(timezone, shown);
        IF moments.first > after THEN
            RETURN moments.first;
        ELSIF NOT c.fixed_time AND moments.second > after THEN
            RETURN moments.second;
        ELSIF c.fixed_time AND moments.resumes > after THEN
            RETURN moments.resumes;
        ELSIF moments.resumes IS NOT NULL THEN
            shown := (moments.resumes AT TIME ZONE timezone) - interval '1 second';
        END IF;
    END LOOP;
END
$$;
