-- headwater.schedule_history(namespace, name, count)
-- Public: in docs/sql.md.
-- Lists what happened at the last 100 due times of a schedule, latest first. outcome: 'fired',
-- 'manual' (run_schedule_now), 'failed' (it is tried again), or 'skipped' (missed: the due times
-- from due_at to skipped_until).
-- Raises: WH001, WH002 (count), WH030. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.schedule_history(namespace text, name text, count int DEFAULT 100, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (
    due_at timestamptz, due_local text, outcome text, ran_at timestamptz, event_id uuid, global_sequence bigint, skipped_until timestamptz,
    attempts int, error text
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s record;
BEGIN
    PERFORM headwater_private.open_namespace(schedule_history.namespace, caller, 'producer');
    SELECT x.task_id, x.timezone INTO STRICT s FROM headwater.schedule_status(schedule_history.namespace, coalesce(schedule_history.name, '')) x;
    IF schedule_history.count IS NULL OR schedule_history.count NOT BETWEEN 1 AND 1000 THEN
        PERFORM headwater_private.fail('WH002', format('invalid count %s', coalesce(schedule_history.count::text, 'NULL')),
            jsonb_build_object('what', 'count', 'value', schedule_history.count), 'count is 1 to 1000');
    END IF;
    RETURN QUERY
    SELECT r.due_at, headwater_private.zoned_time(r.due_at, s.timezone), r.outcome, r.ran_at, CASE WHEN r.outcome <> 'skipped' THEN r.run_id END,
           r.global_sequence, r.skipped_until, r.attempts, r.error
      FROM headwater_private.schedule_runs r WHERE r.task_id = s.task_id
     ORDER BY r.ran_at DESC, r.due_at DESC LIMIT schedule_history.count;
END
$$;
