-- headwater.store_due(namespace, event_id, event_type, due_at, …, notify)
-- Stores an event until it is due. Appends it if it is due already and no event of its stream that
-- was due before waits. headwater.emit_at calls it, and so does the Rust client. `notify`: wake who
-- must know, from within this transaction, unless the namespace has switched that off.
-- Returns appended (readers may be woken) and soon (firing sessions may sleep past it, and should
-- be woken). Firing sessions look at least once a minute, so an event that is due much later wakes
-- nobody: it could be late, by that minute, only if this transaction stayed open for nine minutes.
-- Raises: WH001, WH002 (bad input), WH004 (payload too large), WH005 (event id used again).
-- Locks: the event's id, until the transaction ends; if it is due, see append_batch. Writes: one
-- row in due_events, or see append_batch.
CREATE OR REPLACE FUNCTION headwater.store_due(
    namespace      text,
    event_id       uuid,
    event_type     text,
    due_at         timestamptz,
    data           jsonb,
    stream_id      text,
    key            text,
    headers        jsonb,
    actor_id       text,
    correlation_id uuid,
    causation_id   uuid,
    schema_version int,
    created_at     timestamptz,
    notify         boolean,
    OUT appended boolean, OUT soon boolean,
    caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(namespace, caller, 'producer');
    bytes  int := octet_length(coalesce(data, 'null')::text);
    there  headwater_private.due_events;
    stored boolean;
BEGIN
    PERFORM headwater_private.check_event(event_type, key, actor_id, headers, schema_version);
    IF stream_id IS NOT NULL THEN
        PERFORM headwater_private.check_name('stream_id', stream_id, 512);
    END IF;
    IF event_id IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'invalid event_id NULL', '{"what": "event_id"}', 'give the event an id');
    END IF;
    IF due_at IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'invalid due_at NULL', '{"what": "due_at"}', 'due_at is a time up to the year 9999');
    END IF;
    PERFORM headwater_private.check_time('due_at', due_at);
    PERFORM headwater_private.check_time('created_at', created_at);
    IF octet_length(headers::text) > greatest(ns.max_payload_bytes, 65536) THEN
        bytes := octet_length(headers::text);
    END IF;
    IF bytes > ns.max_payload_bytes THEN
        PERFORM headwater_private.fail('WH004',
            format('payload of %s bytes is larger than the %s that namespace %L allows', bytes, ns.max_payload_bytes, namespace),
            jsonb_build_object('bytes', bytes, 'limit', ns.max_payload_bytes),
            'keep large data elsewhere and refer to it, or raise max_payload_bytes with headwater.alter_namespace');
    END IF;
    appended := false;
    soon := false;

    LOOP
        -- Write the row first, then look into the log: this waits for a session that fires the same
        -- id, and then sees its event in the log.
        INSERT INTO headwater_private.due_events AS d (due_at, fire_at, created_at, namespace_id, schema_version, bytes, event_id, correlation_id,
                                               causation_id, event_type, stream_id, key, actor_id, headers, data)
        VALUES (due_at, due_at, coalesce(created_at, clock_timestamp()), ns.namespace_id, coalesce(schema_version, 1), bytes, event_id,
                correlation_id, causation_id, event_type, stream_id, key, actor_id,
                coalesce(nullif(headers, 'null'), '{}') || jsonb_build_object('due_at',
                    to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')),
                coalesce(data, 'null'))
        ON CONFLICT DO NOTHING;
        stored := FOUND;
        IF NOT stored THEN
            SELECT d.* INTO there FROM headwater_private.due_events d WHERE d.namespace_id = ns.namespace_id AND d.event_id = event_id;
            IF FOUND AND there.event_type = event_type AND there.stream_id IS NOT DISTINCT FROM stream_id THEN
                RETURN;
            ELSIF FOUND THEN
                PERFORM headwater_private.fail('WH005', format('event %s waits to be due already, but not as it is given now', event_id),
                    jsonb_build_object('event_id', event_id),
                    'a retry must repeat the event as it was; a new event needs a new id');
            END IF;
        END IF;
        IF (SELECT s.sequences IS NOT NULL
              FROM headwater_private.stored_append(ns.namespace_id, ARRAY[event_id], ARRAY[event_type], ARRAY[stream_id]) s) THEN
            DELETE FROM headwater_private.due_events d WHERE d.namespace_id = ns.namespace_id AND d.event_id = event_id AND stored;
            RETURN;
        END IF;
        -- The event is neither here nor in the log: it was cancelled in between.
        EXIT WHEN stored;
    END LOOP;

    IF due_at <= clock_timestamp()
       AND (stream_id IS NULL
            -- Do not pass events of its stream that were due before and still wait.
            OR NOT EXISTS (SELECT FROM headwater_private.due_events d
                            WHERE d.namespace_id = ns.namespace_id AND d.stream_id = store_due.stream_id AND d.failures = 0
                              AND d.due_at <= store_due.due_at AND d.event_id <> store_due.event_id)) THEN
        PERFORM headwater_private.append_due(namespace, ARRAY[event_id], notify, NULL);
        appended := true;
    ELSE
        soon := due_at < clock_timestamp() + interval '10 minutes';
        IF soon AND notify AND ns.notify THEN
            PERFORM pg_notify('headwater.due', ns.namespace_id::text) WHERE headwater_private.may_notify();
        END IF;
    END IF;
END
$$;
