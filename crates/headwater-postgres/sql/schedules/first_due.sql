-- headwater_private.first_due(s, after)
-- Returns the first due time of a schedule that is later than `after`, and within its start and
-- end. NULL: there is none, or none before the clocks of its time zone show the year 10000. A
-- schedule that is due once keeps its due time, past or not, until it was fired.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.first_due(s headwater_private.schedules, after timestamptz)
RETURNS timestamptz LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    due timestamptz := s.due_at;
BEGIN
    IF s.cron_expression IS NOT NULL THEN
        due := headwater_private.cron_after(headwater_private.cron_fields(s.cron_expression), s.timezone,
                                    greatest(first_due.after, s.starts_at - interval '1 microsecond'));
    END IF;
    RETURN CASE WHEN due > s.ends_at OR due AT TIME ZONE s.timezone >= '10000-01-01' THEN NULL ELSE due END;
END
$$;
