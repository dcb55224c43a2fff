-- headwater_private.plan_runs(s, at)
-- Decides what a schedule has to do at a moment: the due times to fire, in order; the first and
-- last of the due times that are skipped; and when it is due after that (NULL: never). A due time
-- is missed when nobody fired it within two minutes, so a job that looks once a minute, as pg_cron
-- does, misses none. Due times that are not missed are all fired.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.plan_runs(
    s headwater_private.schedules, at timestamptz,
    OUT due timestamptz[], OUT skipped_from timestamptz, OUT skipped_until timestamptz, OUT next_due_at timestamptz
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    on_time_from timestamptz := at - interval '120 seconds';
    until        timestamptz := least(at, s.ends_at);
    c            headwater_private.cron;
    moment       timestamptz := s.next_due_at;
    on_time      timestamptz[] := '{}';
    keep         int;
BEGIN
    due := '{}';
    IF s.cron_expression IS NULL THEN
        IF s.missed = 'skip' AND moment < on_time_from THEN
            skipped_from := moment;
            skipped_until := moment;
        ELSE
            due := ARRAY[moment];
        END IF;
        RETURN;
    END IF;

    c := headwater_private.cron_fields(s.cron_expression);
    IF moment < on_time_from THEN
        moment := headwater_private.cron_after(c, s.timezone, on_time_from - interval '1 microsecond');
    END IF;
    WHILE moment <= until LOOP
        on_time := on_time || moment;
        moment := headwater_private.cron_after(c, s.timezone, moment);
    END LOOP;
    next_due_at := CASE WHEN moment > s.ends_at THEN NULL ELSE moment END;

    IF s.next_due_at < on_time_from THEN
        keep := CASE s.missed WHEN 'fire_all' THEN s.missed_limit WHEN 'skip' THEN 0 ELSE 1 - least(cardinality(on_time), 1) END;
        moment := least(on_time_from - interval '1 microsecond', until);
        LOOP
            moment := headwater_private.cron_before(c, s.timezone, s.next_due_at, moment);
            EXIT WHEN moment IS NULL OR cardinality(due) = keep;
            due := moment || due;
            moment := moment - interval '1 microsecond';
        END LOOP;
        IF moment IS NOT NULL THEN
            skipped_from := s.next_due_at;
            skipped_until := moment;
        END IF;
    END IF;
    due := due || on_time;
END
$$;
