-- headwater.fire_all_due(max_events)
-- Public: in docs/sql.md.
-- headwater.fire_due for every namespace that has something due, at most max_events in each. It is
-- for a server without nodes, and is called by `headwater up` or by a job. Returns the same as
-- fire_due, for all namespaces together. If a writer's open transaction holds up a namespace (a
-- gapless one), the namespace is left for the next call, a second later. Namespaces come in random
-- order. After a second, the remaining ones are left for the next call.
-- Raises: WH002 (max_events). Locks, writes: see fire_due.
CREATE OR REPLACE FUNCTION headwater.fire_all_due(max_events int DEFAULT 1000, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (fired int, next_due_in interval, failed int) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at      timestamptz := clock_timestamp();
    timeout text := current_setting('lock_timeout');
    ns      text;
    r       record;
BEGIN
    PERFORM headwater_private.check_max_events(fire_all_due.max_events);
    fired := 0;
    failed := 0;
    FOR ns IN SELECT n.namespace FROM headwater_private.namespaces n
                JOIN unnest(headwater_private.granted_to(caller, 'producer')) AS g(namespace_id) ON g.namespace_id = n.namespace_id
               WHERE EXISTS (SELECT FROM headwater_private.due_events d WHERE d.namespace_id = n.namespace_id AND d.fire_at <= at)
               ORDER BY random() LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '250', true);
            SELECT f.* INTO r FROM headwater.fire_due(ns, fire_all_due.max_events) f;
            fired := fired + r.fired;
            failed := failed + r.failed;
            next_due_in := least(next_due_in, r.next_due_in);
        EXCEPTION
            WHEN lock_not_available THEN
                -- Somebody's open transaction holds up this namespace. The others need not wait
                -- with it.
                next_due_in := least(next_due_in, interval '1 second');
            WHEN SQLSTATE 'WH001' THEN
                -- It was dropped or renamed in the meantime.
                NULL;
        END;
        PERFORM set_config('lock_timeout', timeout, true);
        -- Everything that was fired waits for the commit. What is left goes out with the next call,
        -- and the random order sees to it that no namespace is always last.
        IF clock_timestamp() > at + interval '1 second' THEN
            next_due_in := interval '0';
            EXIT;
        END IF;
    END LOOP;
    SELECT least(next_due_in, min(greatest(x.fire_at - clock_timestamp(), interval '0'))) INTO next_due_in
      FROM headwater_private.namespaces n
      JOIN unnest(headwater_private.granted_to(caller, 'producer')) AS g(namespace_id) ON g.namespace_id = n.namespace_id
     CROSS JOIN LATERAL (SELECT d.fire_at FROM headwater_private.due_events d WHERE d.namespace_id = n.namespace_id AND d.fire_at > at
                          ORDER BY d.fire_at LIMIT 1) x;
    RETURN NEXT;
END
$$;
