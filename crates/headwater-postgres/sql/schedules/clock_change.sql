-- headwater_private.clock_change(timezone, earlier, later)
-- Returns when the clocks of a time zone were changed between two moments that have one change
-- between them: the first second with the offset of `later`.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.clock_change(timezone text, earlier timestamptz, later timestamptz)
RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    shift  interval := (later AT TIME ZONE timezone) - (later AT TIME ZONE 'UTC');
    low    bigint := extract(epoch FROM earlier);
    high   bigint := extract(epoch FROM later);
    middle bigint;
    moment timestamptz;
BEGIN
    WHILE high - low > 1 LOOP
        middle := (low + high) / 2;
        moment := to_timestamp(middle);
        IF (moment AT TIME ZONE timezone) - (moment AT TIME ZONE 'UTC') = shift THEN
            high := middle;
        ELSE
            low := middle;
        END IF;
    END LOOP;
    RETURN to_timestamp(high);
END
$$;
