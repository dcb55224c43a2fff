-- headwater.first_due(s, after)
-- The first due time of a schedule that is later than `after`, and within its start and end. NULL: there is none. One that is due once has its own
-- due time, past or not, until it was fired.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.first_due(s headwater.schedules, after timestamptz)
RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    due timestamptz := s.due_at;
BEGIN
    IF s.cron_expression IS NOT NULL THEN
        due := headwater.cron_after(headwater.cron_fields(s.cron_expression), s.timezone,
                                    greatest(first_due.after, s.starts_at - interval '1 microsecond'));
    END IF;
    RETURN CASE WHEN due > s.ends_at THEN NULL ELSE due END;
END
$$;
