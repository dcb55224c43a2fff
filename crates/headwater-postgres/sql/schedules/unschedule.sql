-- headwater.unschedule(namespace, name)
-- Public: in docs/sql.md.
-- Removes a schedule with its history. Events that it appended stay.
-- Raises: WH001, WH030. Locks: its row; it waits for a session that fires it. Writes: schedules,
-- schedule_runs; a job of pg_cron.
CREATE OR REPLACE FUNCTION headwater.unschedule(namespace text, name text, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s headwater_private.schedules := headwater_private.schedule_row(unschedule.namespace, caller, unschedule.name);
BEGIN
    IF s.job_id IS NOT NULL THEN
        PERFORM headwater_private.drop_cron_job(s.task_id);
    END IF;
    DELETE FROM headwater_private.schedules x WHERE x.task_id = s.task_id;
END
$$;
