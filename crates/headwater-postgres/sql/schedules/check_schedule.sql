-- headwater_private.check_schedule(name, event_type, cron_expression, due_at, timezone, …)
-- Checks what a caller gave to headwater.schedule. NULL means not given.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_schedule(
    name text, event_type text, cron_expression text, due_at timestamptz, timezone text, stream_id text, key text,
    starts_at timestamptz, ends_at timestamptz, missed text, missed_limit int, trigger text
) RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM headwater_private.check_name('schedule name', coalesce(name, ''), 255);
    PERFORM headwater_private.check_event(event_type, key, NULL, NULL, NULL);
    IF stream_id IS NOT NULL THEN
        PERFORM headwater_private.check_name('stream_id', stream_id, 512);
    END IF;
    IF (cron_expression IS NULL) = (due_at IS NULL) THEN
        PERFORM headwater_private.fail('WH002', format('schedule %L has %s', name,
                CASE WHEN due_at IS NULL THEN 'no cron_expression and no due_at' ELSE 'both a cron_expression and a due_at' END),
            jsonb_build_object('what', 'cron_expression', 'value', cron_expression), 'give one of the two');
    END IF;
    PERFORM headwater_private.check_time('due_at', due_at);
    PERFORM headwater_private.check_time('starts_at', starts_at);
    PERFORM headwater_private.check_time('ends_at', ends_at);
    IF starts_at > ends_at THEN
        PERFORM headwater_private.fail('WH002', format('schedule %L ends at %s, before it starts at %s', name, ends_at, starts_at),
            jsonb_build_object('what', 'ends_at', 'value', ends_at), 'ends_at is not before starts_at');
    END IF;
    IF due_at IS NOT NULL AND (starts_at IS NOT NULL OR ends_at IS NOT NULL) THEN
        PERFORM headwater_private.fail('WH002', format('schedule %L is due once, and has a starts_at or ends_at', name),
            '{"what": "starts_at"}', 'these are for cron expressions: leave them out');
    END IF;
    IF missed IS NULL OR missed NOT IN ('fire_once', 'fire_all', 'skip') THEN
        PERFORM headwater_private.fail('WH002', format('invalid missed %L', coalesce(missed, 'NULL')),
            jsonb_build_object('what', 'missed', 'value', missed), 'missed is fire_once, fire_all or skip');
    END IF;
    IF missed_limit NOT BETWEEN 1 AND 1000 THEN
        PERFORM headwater_private.fail('WH002', format('invalid missed_limit %s', missed_limit),
            jsonb_build_object('what', 'missed_limit', 'value', missed_limit), 'missed_limit is 1 to 1000');
    END IF;
    IF trigger IS NULL OR trigger NOT IN ('node', 'pg_cron') THEN
        PERFORM headwater_private.fail('WH002', format('invalid trigger %L', coalesce(trigger, 'NULL')),
            jsonb_build_object('what', 'trigger', 'value', trigger), 'trigger is node or pg_cron');
    END IF;
    PERFORM headwater_private.check_timezone(timezone);
    -- The clocks of the time zone, too, must show a year that every reader knows.
    PERFORM headwater_private.check_time('local due_at', due_at AT TIME ZONE timezone AT TIME ZONE 'UTC');
    IF cron_expression IS NOT NULL THEN
        PERFORM headwater_private.cron_fields(cron_expression);
    END IF;
END
$$;
