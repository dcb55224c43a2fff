-- headwater_private.fire_tasks(ns, task_id, max_events, notify, at)
-- Appends the events of schedules that are due at a moment, of one schedule (task_id) or of all,
-- the earliest first, at most max_events and about 8 MiB. Moves each schedule on to its next due
-- time, all in this transaction. A stream that an open transaction holds is not a failure: its
-- events wait for a second. Returns fired; failed, how many schedules have an event that could not
-- be appended; looked_at. The due time of a failed event stays, and is tried again after 1, 2, 4, …
-- seconds, at most 10 minutes.
-- Raises: an error that concerns not one schedule but the server, with nothing changed.
-- Locks: the schedules' rows that nobody else has locked; see append_batch. Writes: schedules,
-- schedule_runs; see append_batch.
CREATE OR REPLACE FUNCTION headwater_private.fire_tasks(
    ns headwater_private.namespaces, task_id uuid, max_events int, notify boolean, at timestamptz, OUT fired int, OUT failed int, OUT looked_at int
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    timeout  text := current_setting('lock_timeout');
    -- How long to wait for streams that other open transactions hold: 200 ms for the first one, 1
    -- ms for all others.
    patience int := 200;
    s        headwater_private.schedules;
    p        record;
    bytes    bigint := 0;
    room     int;
    -- One element per schedule.
    tasks    uuid[] := '{}';
    nexts    timestamptz[] := '{}';
    froms    timestamptz[] := '{}';
    untils   timestamptz[] := '{}';
    -- One element per run.
    of_task  uuid[] := '{}';
    dues     timestamptz[] := '{}';
    ids      uuid[];
    failing  uuid[] := '{}';
    code     text;
BEGIN
    fired := 0;
    failed := 0;
    looked_at := 0;
    FOR s IN SELECT x.* FROM headwater_private.schedules x
              WHERE x.namespace_id = ns.namespace_id AND x.active AND x.fire_at <= fire_tasks.at
                AND (fire_tasks.task_id IS NULL OR x.task_id = fire_tasks.task_id)
              ORDER BY x.fire_at, x.task_id LIMIT fire_tasks.max_events
                FOR UPDATE SKIP LOCKED LOOP
        p := headwater_private.plan_runs(s, fire_tasks.at);
        room := least(fire_tasks.max_events - cardinality(dues), greatest((8388608 - bytes) / s.bytes, 1));
        IF cardinality(p.due) > room THEN
            p.next_due_at := p.due[room + 1];
            p.due := p.due[1:room];
        END IF;
        looked_at := looked_at + 1;
        tasks := tasks || s.task_id;
        nexts := nexts || p.next_due_at;
        froms := froms || p.skipped_from;
        untils := untils || p.skipped_until;
        of_task := of_task || array_fill(s.task_id, ARRAY[cardinality(p.due)]);
        dues := dues || p.due;
        bytes := bytes + s.bytes::bigint * cardinality(p.due);
        EXIT WHEN cardinality(dues) >= fire_tasks.max_events OR bytes >= 8388608;
    END LOOP;
    IF looked_at = 0 THEN
        RETURN;
    END IF;

    IF cardinality(dues) > 0 THEN
        ids := ARRAY(SELECT headwater_private.schedule_event_id(r.task_id, r.due_at)
                       FROM unnest(of_task, dues) WITH ORDINALITY AS r(task_id, due_at, ord) ORDER BY r.ord);
        IF ns.sequence IS NULL THEN
            -- Wait for the counter as any writer does: that says nothing about a schedule.
            PERFORM FROM headwater_private.counters c WHERE c.namespace_id = ns.namespace_id FOR UPDATE;
        END IF;
        BEGIN
            fired := headwater_private.append_runs(ns.namespace, of_task, dues, ids, 'fired', fire_tasks.notify, patience);
        EXCEPTION WHEN OTHERS THEN
            fired := NULL;
        END;
        IF fired IS NULL THEN
            fired := 0;
            FOR i IN 1..cardinality(dues) LOOP
                CONTINUE WHEN of_task[i] = ANY (failing);
                BEGIN
                    fired := fired + headwater_private.append_runs(ns.namespace, ARRAY[of_task[i]], ARRAY[dues[i]], ARRAY[ids[i]], 'fired', fire_tasks.notify, patience);
                EXCEPTION WHEN OTHERS THEN
                    -- The error concerns the server, not the schedule: a serialization failure or
                    -- deadlock, resources, an operator, the system.
                    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE;
                    IF left(code, 2) IN ('40', '53', '57', '58', 'XX') THEN
                        RAISE;
                    END IF;
                    failing := failing || of_task[i];
                    IF code = '55P03' AND EXISTS (SELECT FROM headwater_private.schedules x WHERE x.task_id = of_task[i] AND x.stream_id IS NOT NULL) THEN
                        patience := 1;
                        UPDATE headwater_private.schedules x SET next_due_at = dues[i], fire_at = clock_timestamp() + interval '1 second',
                               error = 'waits for its stream, which an open transaction holds'
                         WHERE x.task_id = of_task[i];
                        CONTINUE;
                    END IF;
                    failed := failed + 1;
                    INSERT INTO headwater_private.schedule_runs AS r (task_id, run_id, due_at, ran_at, attempts, outcome, error)
                    VALUES (of_task[i], ids[i], dues[i], clock_timestamp(), 1, 'failed', format('%s: %s', code, SQLERRM))
                    ON CONFLICT (task_id, run_id) DO UPDATE SET ran_at = excluded.ran_at, attempts = r.attempts + 1, outcome = 'failed', error = excluded.error;
                    UPDATE headwater_private.schedules x
                       SET next_due_at = dues[i], failures = x.failures + 1, error = format('%s: %s', code, SQLERRM),
                           fire_at = clock_timestamp() + least(interval '1 second' * 2 ^ least(x.failures, 10), interval '10 minutes')
                     WHERE x.task_id = of_task[i];
                END;
            END LOOP;
        END IF;
        PERFORM set_config('lock_timeout', timeout, true);
    END IF;

    UPDATE headwater_private.schedules x
       SET next_due_at = u.next_due_at, fire_at = u.next_due_at, failures = 0, error = NULL,
           last_due_at = coalesce(d.last, x.last_due_at)
      FROM unnest(tasks, nexts) AS u(task_id, next_due_at)
      LEFT JOIN (SELECT r.task_id, max(r.due_at) AS last FROM unnest(of_task, dues) AS r(task_id, due_at) GROUP BY r.task_id) d
        ON d.task_id = u.task_id
     WHERE x.task_id = u.task_id AND NOT u.task_id = ANY (failing);
    INSERT INTO headwater_private.schedule_runs AS r (task_id, run_id, due_at, ran_at, skipped_until, attempts, outcome)
    SELECT u.task_id, headwater_private.schedule_event_id(u.task_id, u.skipped_from), u.skipped_from, clock_timestamp(), u.skipped_until, 0, 'skipped'
      FROM unnest(tasks, froms, untils) AS u(task_id, skipped_from, skipped_until)
     WHERE u.skipped_from IS NOT NULL
    ON CONFLICT (task_id, run_id) DO UPDATE SET ran_at = excluded.ran_at, skipped_until = excluded.skipped_until, outcome = 'skipped';
    PERFORM headwater_private.prune_runs(tasks);
END
$$;
