-- headwater_private.prune_runs(task_ids)
-- Keeps the last 100 runs of these schedules.
-- Raises: nothing. Locks, writes: schedule_runs.
CREATE OR REPLACE FUNCTION headwater_private.prune_runs(task_ids uuid[])
RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM headwater_private.schedule_runs r
     USING (SELECT DISTINCT u AS task_id FROM unnest(prune_runs.task_ids) u) t,
           LATERAL (SELECT o.ran_at, o.run_id FROM headwater_private.schedule_runs o WHERE o.task_id = t.task_id
                     ORDER BY o.ran_at DESC, o.run_id DESC OFFSET 100 LIMIT 1) old
     WHERE r.task_id = t.task_id AND (r.ran_at, r.run_id) <= (old.ran_at, old.run_id)
$$;
