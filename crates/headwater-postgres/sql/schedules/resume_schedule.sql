-- headwater.resume_schedule(namespace, name)
-- Public: in docs/sql.md.
-- Resumes a paused schedule: it is due from now on. A schedule that is due once, and was not fired,
-- is due at its time, or now if that has passed. Its pg_cron job, if it should have one, is created
-- again. Returns when it is due next; NULL: never again.
-- Raises: WH001, WH030, WH031 (pg_cron is wanted, and not installed). Locks: its row. Writes:
-- schedules; a job of pg_cron.
CREATE OR REPLACE FUNCTION headwater.resume_schedule(namespace text, name text, caller headwater.caller DEFAULT current_user)
RETURNS timestamptz LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s headwater_private.schedules := headwater_private.schedule_row(resume_schedule.namespace, caller, resume_schedule.name);
BEGIN
    IF NOT s.active THEN
        IF s.cron_expression IS NOT NULL THEN
            s.next_due_at := headwater_private.first_due(s, clock_timestamp());
        END IF;
        UPDATE headwater_private.schedules x
           SET active = true, next_due_at = s.next_due_at, fire_at = s.next_due_at, failures = 0, error = NULL, updated_at = clock_timestamp()
         WHERE x.task_id = s.task_id;
        IF s.next_due_at IS NOT NULL THEN
            PERFORM headwater_private.set_cron_job(s.task_id);
        END IF;
        PERFORM headwater_private.wake_firing(headwater_private.open_namespace(resume_schedule.namespace, caller, 'producer'));
    END IF;
    RETURN s.next_due_at;
END
$$;
