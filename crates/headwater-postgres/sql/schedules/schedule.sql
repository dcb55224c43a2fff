-- headwater.schedule(namespace, name, event_type, cron_expression or due_at, …)
-- Public: in docs/sql.md.
-- Creates a schedule, or changes the schedule of this name. It appends an event of event_type, with
-- `payload`, at each due time, once, however many processes fire.
--   cron_expression  see cron_fields; its times are in `timezone` (cron_after says what happens
--                    when clocks are changed)
--   due_at           instead: due once
--   stream_id, key   of the event; it is appended to the stream whatever its version is
--   starts_at, ends_at  no due time before the first, none after the second
--   missed           what happens to due times that nobody fired within two minutes: 'fire_once'
--                    (default) fires the last of them, unless one that is on time follows;
--                    'fire_all' fires the last missed_limit (default 100) of them; 'skip' fires
--                    none
--   active           false: paused. NULL (default): unchanged; a new schedule is active
--   trigger          'node' (default): every caller of fire_schedules fires it, as nodes do.
--                    'pg_cron': pg_cron fires it too, through a job of its own
-- Called again with the same times, it keeps what is due: a program may call it at every start.
-- With other times the schedule is due from now on. Returns the schedule's task_id, which stays.
-- Raises: WH001, WH002 (bad input; never due), WH004 (payload too large), WH031 (pg_cron cannot be
-- used here).
-- Locks: the schedule's row. Writes: schedules; a job of pg_cron.
CREATE OR REPLACE FUNCTION headwater.schedule(
    namespace       text,
    name            text,
    event_type      text,
    cron_expression text DEFAULT NULL,
    due_at          timestamptz DEFAULT NULL,
    payload         jsonb DEFAULT 'null',
    timezone        text DEFAULT 'UTC',
    stream_id       text DEFAULT NULL,
    key             text DEFAULT NULL,
    starts_at       timestamptz DEFAULT NULL,
    ends_at         timestamptz DEFAULT NULL,
    missed          text DEFAULT 'fire_once',
    missed_limit    int DEFAULT NULL,
    active          boolean DEFAULT NULL,
    trigger         text DEFAULT 'node',
    caller headwater.caller DEFAULT current_user
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    ns    headwater_private.namespaces := headwater_private.open_namespace(namespace, caller, 'producer');
    at    timestamptz := clock_timestamp();
    new   headwater_private.schedules;
    there headwater_private.schedules;
    same  boolean;
BEGIN
    PERFORM headwater_private.check_schedule(name, event_type, cron_expression, due_at, timezone, stream_id, key, starts_at, ends_at, missed, missed_limit, trigger);
    new.namespace_id := ns.namespace_id;
    new.name := name;
    new.event_type := event_type;
    new.cron_expression := cron_expression;
    new.due_at := due_at;
    new.payload := coalesce(payload, 'null');
    new.bytes := octet_length(new.payload::text);
    new.timezone := timezone;
    new.stream_id := stream_id;
    new.key := key;
    new.starts_at := starts_at;
    new.ends_at := ends_at;
    new.missed := missed;
    new.missed_limit := coalesce(missed_limit, 100);
    new.trigger := trigger;
    IF new.bytes > ns.max_payload_bytes THEN
        PERFORM headwater_private.fail('WH004',
            format('payload of %s bytes is larger than the %s that namespace %L allows', new.bytes, ns.max_payload_bytes, namespace),
            jsonb_build_object('bytes', new.bytes, 'limit', ns.max_payload_bytes),
            'keep large data elsewhere and refer to it, or raise max_payload_bytes with headwater.alter_namespace');
    END IF;
    new.next_due_at := headwater_private.first_due(new, at);

    LOOP
        SELECT s.* INTO there FROM headwater_private.schedules s WHERE s.namespace_id = ns.namespace_id AND s.name = name FOR UPDATE;
        EXIT WHEN FOUND;
        EXIT WHEN new.next_due_at IS NULL;
        new.task_id := headwater.uuid_v7();
        INSERT INTO headwater_private.schedules (starts_at, ends_at, due_at, next_due_at, fire_at, namespace_id, missed_limit, bytes, active, task_id, name,
                                         cron_expression, timezone, event_type, stream_id, key, missed, trigger, payload)
        VALUES (new.starts_at, new.ends_at, new.due_at, new.next_due_at, new.next_due_at, new.namespace_id, new.missed_limit, new.bytes,
                coalesce(active, true), new.task_id, new.name, new.cron_expression, new.timezone, new.event_type, new.stream_id, new.key,
                new.missed, new.trigger, new.payload)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            PERFORM headwater_private.set_cron_job(new.task_id);
            PERFORM headwater_private.wake_firing(ns);
            RETURN new.task_id;
        END IF;
    END LOOP;

    same := (there.cron_expression, there.timezone, there.due_at, there.starts_at, there.ends_at)
            IS NOT DISTINCT FROM (new.cron_expression, new.timezone, new.due_at, new.starts_at, new.ends_at);
    IF same AND (there.active OR active IS NOT TRUE OR there.due_at IS NOT NULL) THEN
        new.next_due_at := there.next_due_at;
    ELSIF new.next_due_at IS NULL AND NOT same THEN
        PERFORM headwater_private.fail('WH002', format('schedule %L is never due', name),
            jsonb_build_object('what', 'cron_expression', 'value', cron_expression),
            'try its expression and time zone: SELECT * FROM headwater.next_runs(''0 2 * * *'', ''Europe/Copenhagen''); see ends_at too');
    END IF;
    UPDATE headwater_private.schedules s
       SET starts_at = new.starts_at, ends_at = new.ends_at, due_at = new.due_at, next_due_at = new.next_due_at, fire_at = new.next_due_at,
           failures = 0, error = NULL, missed_limit = new.missed_limit, bytes = new.bytes, active = coalesce(active, there.active), cron_expression = new.cron_expression,
           timezone = new.timezone, event_type = new.event_type, stream_id = new.stream_id, key = new.key, missed = new.missed,
           trigger = new.trigger, payload = new.payload, updated_at = at
     WHERE s.task_id = there.task_id;
    PERFORM headwater_private.set_cron_job(there.task_id);
    PERFORM headwater_private.wake_firing(ns);
    RETURN there.task_id;
END
$$;
