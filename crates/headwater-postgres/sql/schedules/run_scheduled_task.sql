-- headwater.run_scheduled_task(task_id)
-- Public: in docs/sql.md.
-- Fires what is due of one schedule. A pg_cron job calls it. Returns what it did: 'fired 1', or why
-- nothing was fired: 'nothing due', 'paused', 'ended', 'failed', or 'busy' if another session is
-- firing it. A job that finds that its schedule has ended or is gone removes itself.
-- Raises: WH030 (there is no such task, and no job of it); see fire_tasks. Locks, writes: see
-- fire_tasks; a job of pg_cron.
CREATE OR REPLACE FUNCTION headwater.run_scheduled_task(task_id uuid, caller headwater.caller DEFAULT current_user)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at   timestamptz := clock_timestamp();
    s    headwater_private.schedules;
    ns   headwater_private.namespaces;
    done record;
BEGIN
    -- A task of a namespace in which the caller may not append does not exist for the caller.
    SELECT x.* INTO s FROM headwater_private.schedules x
     WHERE x.task_id = run_scheduled_task.task_id AND headwater_private.is_granted(x.namespace_id, caller, 'producer');
    IF s.task_id IS NULL THEN
        IF pg_has_role(caller, current_user, 'USAGE') AND headwater_private.drop_cron_job(run_scheduled_task.task_id) THEN
            RETURN 'gone';
        END IF;
        PERFORM headwater_private.fail('WH030', format('no schedule has the task_id %s', coalesce(run_scheduled_task.task_id::text, 'NULL')),
            jsonb_build_object('schedule', run_scheduled_task.task_id),
            'see which there are: SELECT name, task_id FROM headwater.schedule_status(''namespace'')');
    ELSIF NOT s.active THEN
        RETURN 'paused';
    ELSIF s.fire_at IS NULL THEN
        PERFORM headwater_private.drop_cron_job(s.task_id);
        UPDATE headwater_private.schedules x SET job_id = NULL WHERE x.task_id = s.task_id AND x.job_id IS NOT NULL;
        RETURN 'ended';
    ELSIF s.fire_at > at THEN
        RETURN 'nothing due';
    END IF;
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = s.namespace_id;
    done := headwater_private.fire_tasks(ns, s.task_id, 1000, true, at);
    RETURN CASE WHEN done.looked_at = 0 THEN 'busy' WHEN done.failed > 0 THEN 'failed'
                WHEN done.fired = 0 THEN 'nothing due' ELSE format('fired %s', done.fired) END;
END
$$;
