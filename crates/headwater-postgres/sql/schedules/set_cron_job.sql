-- headwater_private.set_cron_job(task_id)
-- Creates a schedule's pg_cron job, or removes it, as the schedule's trigger says. A paused
-- schedule has no job. If pg_cron can express the times (five fields or second 0, in UTC as pg_cron
-- is), the job has the schedule's own expression. Otherwise it runs every minute (for a schedule
-- that is due once: every hour, at its minute), and run_scheduled_task decides.
-- Raises: WH031 (pg_cron is wanted, and not installed). Locks: the schedule's row. Writes: the job,
-- schedules.
CREATE OR REPLACE FUNCTION headwater_private.set_cron_job(task_id uuid)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s        headwater_private.schedules;
    zone     text := coalesce(current_setting('cron.timezone', true), 'GMT');
    times    text;
    job      bigint;
    job_name text;
    runs_in  text := nullif(current_setting('cron.database_name', true), current_database()::text);
BEGIN
    SELECT x.* INTO s FROM headwater_private.schedules x WHERE x.task_id = set_cron_job.task_id;
    IF s.trigger = 'node' OR NOT s.active THEN
        IF s.job_id IS NOT NULL THEN
            PERFORM headwater_private.drop_cron_job(s.task_id);
        END IF;
    ELSE
        IF NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'pg_cron') THEN
            PERFORM headwater_private.fail('WH031',
                CASE WHEN runs_in IS NULL THEN format('pg_cron is not installed in database %L', current_database())
                     ELSE format('pg_cron runs in database %L, not in %L', runs_in, current_database()) END,
                jsonb_build_object('database', current_database(), 'pg_cron_database', runs_in),
                'set shared_preload_libraries = pg_cron and cron.database_name, restart the server, CREATE EXTENSION pg_cron; or leave the schedule to nodes');
        END IF;
        IF s.cron_expression IS NULL THEN
            times := to_char((s.due_at + interval '59.999999 seconds') AT TIME ZONE zone, 'FMMI') || ' * * * *';
        ELSE
            times := CASE WHEN s.cron_expression ~ '^[[:space:]]*0([[:space:]]+[0-9A-Za-z*,/-]+){5}[[:space:]]*$' THEN regexp_replace(s.cron_expression, '^[[:space:]]*0[[:space:]]+', '')
                          WHEN s.cron_expression ~ '^[[:space:]]*[0-9A-Za-z*,/-]+([[:space:]]+[0-9A-Za-z*,/-]+){4}[[:space:]]*$' THEN btrim(s.cron_expression)
                          WHEN s.cron_expression ~* '^[[:space:]]*@(yearly|annually|monthly|weekly|daily|midnight|hourly)[[:space:]]*$' THEN lower(btrim(s.cron_expression)) END;
            -- pg_cron takes a range that ends with Sunday, such as SAT-SUN, as an empty one, and
            -- would never run.
            IF s.cron_expression ~* '-(SUN|0)([^A-Za-z0-9_]|$)' OR s.timezone NOT IN ('UTC', 'GMT', 'Etc/UTC', 'Etc/GMT') OR zone NOT IN ('UTC', 'GMT', 'Etc/UTC', 'Etc/GMT')
               OR EXISTS (SELECT FROM headwater_private.cron_fields(s.cron_expression) c WHERE 32 = ANY (c.days) OR c.weekdays[cardinality(c.weekdays)] > 6) THEN
                times := NULL;
            END IF;
        END IF;
        -- A job's name has 63 bytes. The task's id takes 37 of them.
        job_name := left(regexp_replace((SELECT n.namespace FROM headwater_private.namespaces n WHERE n.namespace_id = s.namespace_id) || '_' || s.name,
                                        '[^A-Za-z0-9_-]', '_', 'g'), 26) || '_' || s.task_id;
        FOREACH times IN ARRAY ARRAY[coalesce(times, '* * * * *'), '* * * * *'] LOOP
            BEGIN
                EXECUTE 'SELECT cron.schedule($1, $2, $3)' INTO job
                  USING job_name, times, format('SELECT headwater.run_scheduled_task(%L)', s.task_id);
                EXIT;
            EXCEPTION WHEN invalid_parameter_value THEN
                -- pg_cron knows less syntax than we do.
                CONTINUE WHEN times <> '* * * * *';
                RAISE;
            END;
        END LOOP;
    END IF;
    UPDATE headwater_private.schedules x SET job_id = job WHERE x.task_id = s.task_id AND x.job_id IS DISTINCT FROM job;
END
$$;
