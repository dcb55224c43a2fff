-- headwater_private.clock_shows(timezone, local)
-- Returns when the clocks of a time zone show a time: once (first = second), twice (they are set
-- back), or never (they are set forward over it). In the last case first and second are NULL, and
-- `resumes` is the first moment after the change.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.clock_shows(
    timezone text, local timestamp, OUT first timestamptz, OUT second timestamptz, OUT resumes timestamptz
) LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    utc       timestamptz := local AT TIME ZONE 'UTC';
    -- No zone is a day away from UTC, so `before` lies before any change that matters, and
    -- `afterward` after it. In hours, because a day has no fixed length.
    before    timestamptz := utc - interval '24 hours';
    afterward timestamptz := utc + interval '24 hours';
    by_old    timestamptz := utc - ((before AT TIME ZONE timezone) - (before AT TIME ZONE 'UTC'));
    by_new    timestamptz := utc - ((afterward AT TIME ZONE timezone) - (afterward AT TIME ZONE 'UTC'));
BEGIN
    IF by_old = by_new THEN
        first := by_old;
        second := by_old;
        RETURN;
    END IF;
    first := CASE WHEN by_old AT TIME ZONE timezone = local THEN by_old END;
    second := CASE WHEN by_new AT TIME ZONE timezone = local THEN by_new END;
    IF first IS NULL AND second IS NULL THEN
        resumes := headwater_private.clock_change(timezone, by_new, by_old);
    ELSE
        first := coalesce(first, second);
        second := coalesce(second, first);
    END IF;
END
$$;
