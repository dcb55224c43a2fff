-- headwater_private.drop_cron_job(task_id)
-- Removes the pg_cron job of a schedule, and returns whether there was one. A job of another user
-- stays: it removes itself when it finds that its schedule is gone (run_scheduled_task).
-- Raises: nothing. Locks, writes: the job.
CREATE OR REPLACE FUNCTION headwater_private.drop_cron_job(task_id uuid)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    dropped bigint := 0;
BEGIN
    IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'pg_cron') THEN
        EXECUTE 'SELECT count(cron.unschedule(j.jobid)) FROM cron.job j WHERE j.command = $1 AND j.username = current_user' INTO dropped
          USING format('SELECT headwater.run_scheduled_task(%L)', drop_cron_job.task_id);
    END IF;
    RETURN dropped > 0;
END
$$;
