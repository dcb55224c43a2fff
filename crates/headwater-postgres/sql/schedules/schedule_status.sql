-- headwater.schedule_status(namespace, schedule_name)
-- Public: in docs/sql.md.
-- Lists the schedules of a namespace, or one of them, by name. Times are also given as the clocks
-- of the schedule's time zone show them. state: 'active', 'paused', 'failing' (its event cannot be
-- appended: see error) or 'ended' (never due again).
-- Raises: WH001, WH030 (there is no schedule of this name). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.schedule_status(namespace text, schedule_name text DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (
    name text, task_id uuid, state text, cron_expression text, due_at timestamptz, timezone text, event_type text, payload jsonb, stream_id text, key text,
    starts_at timestamptz, ends_at timestamptz, missed text, missed_limit int, trigger text, job_id bigint, next_due_at timestamptz, last_due_at timestamptz,
    next_due_local text, last_due_local text, failures int, error text, created_at timestamptz, updated_at timestamptz
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(schedule_status.namespace, caller, 'producer');
BEGIN
    RETURN QUERY
    SELECT s.name, s.task_id,
           CASE WHEN s.next_due_at IS NULL THEN 'ended' WHEN NOT s.active THEN 'paused' WHEN s.failures > 0 THEN 'failing' ELSE 'active' END,
           s.cron_expression, s.due_at, s.timezone, s.event_type, s.payload, s.stream_id, s.key, s.starts_at, s.ends_at, s.missed, s.missed_limit,
           s.trigger, s.job_id, s.next_due_at, s.last_due_at, headwater_private.zoned_time(s.next_due_at, s.timezone),
           headwater_private.zoned_time(s.last_due_at, s.timezone), s.failures, s.error, s.created_at, s.updated_at
      FROM headwater_private.schedules s
     WHERE s.namespace_id = ns.namespace_id AND (schedule_status.schedule_name IS NULL OR s.name = schedule_status.schedule_name)
     ORDER BY s.name;
    IF NOT FOUND AND schedule_status.schedule_name IS NOT NULL THEN
        PERFORM headwater_private.fail('WH030', format('schedule %L does not exist', left(schedule_status.schedule_name, 80)),
            jsonb_build_object('schedule', left(schedule_status.schedule_name, 80)),
            'see which there are: SELECT name FROM headwater.schedule_status(''namespace'')');
    END IF;
END
$$;
