-- headwater_private.zoned_time(moment, timezone)
-- Returns a moment as the clocks of a time zone show it, with their offset from UTC:
-- 2026-03-29T03:00:00+02:00.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.zoned_time(moment timestamptz, timezone text)
RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_char(x.local, 'YYYY-MM-DD"T"HH24:MI:SS') || CASE WHEN extract(microseconds FROM x.local)::int % 1000000 <> 0 THEN to_char(x.local, '.US') ELSE '' END
           || CASE WHEN x.minutes < 0 THEN '-' ELSE '+' END
           || to_char(abs(x.minutes) / 60, 'FM00') || ':' || to_char(abs(x.minutes) % 60, 'FM00')
      FROM (SELECT l.local, (extract(epoch FROM l.local - (zoned_time.moment AT TIME ZONE 'UTC')) / 60)::int AS minutes
              FROM (SELECT zoned_time.moment AT TIME ZONE zoned_time.timezone AS local) l) x
$$;
