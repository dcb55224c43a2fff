-- headwater.all_schedules()
-- Returns the schedules of all namespaces in which the caller may append, by namespace and name, as
-- headwater.schedule_status does for one.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.all_schedules(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (
    namespace text, name text, task_id uuid, state text, cron_expression text, due_at timestamptz, timezone text, event_type text, payload jsonb,
    stream_id text, key text, starts_at timestamptz, ends_at timestamptz, missed text, missed_limit int, trigger text, job_id bigint,
    next_due_at timestamptz, last_due_at timestamptz, next_due_local text, last_due_local text, failures int, error text, created_at timestamptz,
    updated_at timestamptz
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT n.namespace, s.name, s.task_id,
           CASE WHEN s.next_due_at IS NULL THEN 'ended' WHEN NOT s.active THEN 'paused' WHEN s.failures > 0 THEN 'failing' ELSE 'active' END,
           s.cron_expression, s.due_at, s.timezone, s.event_type, s.payload, s.stream_id, s.key, s.starts_at, s.ends_at, s.missed, s.missed_limit,
           s.trigger, s.job_id, s.next_due_at, s.last_due_at, headwater_private.zoned_time(s.next_due_at, s.timezone),
           headwater_private.zoned_time(s.last_due_at, s.timezone), s.failures, s.error, s.created_at, s.updated_at
      FROM headwater_private.schedules s
      JOIN headwater_private.namespaces n ON n.namespace_id = s.namespace_id
      JOIN unnest(headwater_private.granted_to(caller, 'producer')) AS g(namespace_id) ON g.namespace_id = n.namespace_id
     ORDER BY n.namespace, s.name;
END
$$;
