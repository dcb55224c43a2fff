-- headwater_private.cron_before(c, timezone, earliest, latest)
-- Returns the last due time of a parsed cron expression from `earliest` to `latest`, both included.
-- NULL: there is none. The number of steps is the number of binary digits of its distance from
-- `latest`, whatever lies between `earliest` and it.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cron_before(c headwater_private.cron, timezone text, earliest timestamptz, latest timestamptz)
RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    -- Something is due after `low` and up to `latest`, and nothing after `high`.
    low    timestamptz := latest;
    high   timestamptz;
    lowest timestamptz := earliest - interval '1 microsecond';
    step   bigint := 1;
    middle timestamptz;
    due    timestamptz;
    later  timestamptz;
BEGIN
    LOOP
        high := low;
        low := greatest(latest - step * interval '1 second', lowest);
        due := headwater_private.cron_after(c, timezone, low);
        EXIT WHEN due <= latest;
        IF low <= lowest THEN
            RETURN NULL;
        END IF;
        step := step * 2;
    END LOOP;
    LOOP
        later := headwater_private.cron_after(c, timezone, due);
        IF later IS NULL OR later > latest THEN
            RETURN due;
        END IF;
        middle := later + (high - later) / 2;
        due := headwater_private.cron_after(c, timezone, middle);
        IF due IS NULL OR due > latest THEN
            high := middle;
            due := later;
        END IF;
    END LOOP;
END
$$;
