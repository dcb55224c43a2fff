-- headwater_private.cron_day(c, day)
-- Returns whether a day matches a cron expression. Its month is not checked.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cron_day(c headwater_private.cron, day date)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    of_month int := extract(day FROM day);
    of_week  int := extract(dow FROM day);
    by_month boolean := of_month = ANY (c.days) OR (32 = ANY (c.days) AND extract(day FROM day + 1) = 1);
    by_week  boolean := of_week = ANY (c.weekdays) OR 10 * ((of_month + 6) / 7) + of_week = ANY (c.weekdays)
                        OR (70 + of_week = ANY (c.weekdays) AND extract(month FROM day + 7) <> extract(month FROM day));
BEGIN
    RETURN CASE WHEN c.either_day THEN by_month OR by_week ELSE by_month AND by_week END;
END
$$;
