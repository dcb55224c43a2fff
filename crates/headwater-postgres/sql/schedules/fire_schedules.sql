-- headwater.fire_schedules(namespace, max_events, notify, at)
-- Public: in docs/sql.md.
-- Appends the events of schedules that are due by the server's clock, at most max_events of them,
-- and about 8 MiB. Any number of sessions may call it: each due time is fired once. `at`: act as if
-- it were this time, which cannot be in the future. Returns fired; next_due_in, when to call again
-- (NULL: nothing will be due); failed, how many schedules have an event that could not be appended
-- (see fire_tasks).
-- Raises: WH001, WH002 (max_events, at); an error that concerns not one schedule but the server,
-- with nothing changed.
-- Locks, writes: see fire_tasks.
CREATE OR REPLACE FUNCTION headwater.fire_schedules(
    namespace text, max_events int DEFAULT 1000, notify boolean DEFAULT true, at timestamptz DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (fired int, next_due_in interval, failed int) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(fire_schedules.namespace, caller, NULL);
    clock   timestamptz := clock_timestamp();
    done    record;
    next_at timestamptz;
BEGIN
    PERFORM headwater_private.check_max_events(fire_schedules.max_events);
    PERFORM headwater_private.check_time('at', fire_schedules.at);
    IF fire_schedules.at > clock THEN
        PERFORM headwater_private.fail('WH002', format('invalid at %s', to_char(fire_schedules.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')), jsonb_build_object('what', 'at', 'value', fire_schedules.at),
            'nothing is fired before its time: at is not in the future');
    END IF;
    -- A caller that may not append finds nothing due.
    IF NOT headwater_private.is_granted(ns.namespace_id, caller, 'producer') THEN
        fired := 0;
        failed := 0;
        RETURN NEXT;
        RETURN;
    END IF;
    done := headwater_private.fire_tasks(ns, NULL, fire_schedules.max_events, fire_schedules.notify, coalesce(fire_schedules.at, clock));
    fired := done.fired;
    failed := done.failed;
    SELECT s.fire_at INTO next_at FROM headwater_private.schedules s
     WHERE s.namespace_id = ns.namespace_id AND s.active AND s.fire_at IS NOT NULL ORDER BY s.fire_at, s.task_id LIMIT 1;
    clock := coalesce(fire_schedules.at, clock_timestamp());
    next_due_in := CASE WHEN next_at > clock THEN next_at - clock
                        -- Another session has it.
                        WHEN done.looked_at = 0 THEN interval '1 second'
                        ELSE interval '0' END;
    next_due_in := CASE WHEN next_at IS NOT NULL THEN next_due_in END;
    RETURN NEXT;
END
$$;
