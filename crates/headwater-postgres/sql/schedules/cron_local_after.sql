-- headwater_private.cron_local_after(c, after)
-- Returns the next time of a cron expression on a clock that nobody changes. NULL: there is none in
-- eight years, the longest time between two 29ths of February.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cron_local_after(c headwater_private.cron, after timestamp)
RETURNS timestamp LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    from_time timestamp := date_trunc('second', after) + interval '1 second';
    day       date := from_time::date;
    last_day  date := day + 2923;
    from_hour int := extract(hour FROM from_time);
    from_min  int := extract(minute FROM from_time);
    from_sec  int := extract(second FROM from_time);
    h int;
    m int;
    s int;
BEGIN
    IF extract(month FROM day)::int = ANY (c.months) AND headwater_private.cron_day(c, day) THEN
        FOREACH h IN ARRAY c.hours LOOP
            CONTINUE WHEN h < from_hour;
            IF h > from_hour THEN
                RETURN day + make_time(h, c.minutes[1], c.seconds[1]);
            END IF;
            FOREACH m IN ARRAY c.minutes LOOP
                CONTINUE WHEN m < from_min;
                IF m > from_min THEN
                    RETURN day + make_time(h, m, c.seconds[1]);
                END IF;
                FOREACH s IN ARRAY c.seconds LOOP
                    IF s >= from_sec THEN
                        RETURN day + make_time(h, m, s);
                    END IF;
                END LOOP;
            END LOOP;
        END LOOP;
    END IF;
    LOOP
        day := day + 1;
        IF day > last_day THEN
            RETURN NULL;
        ELSIF NOT extract(month FROM day)::int = ANY (c.months) THEN
            day := (date_trunc('month', day::timestamp) + interval '1 month')::date - 1;
        ELSIF headwater_private.cron_day(c, day) THEN
            RETURN day + make_time(c.hours[1], c.minutes[1], c.seconds[1]);
        END IF;
    END LOOP;
END
$$;
