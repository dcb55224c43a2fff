-- headwater.fire_due(namespace, max_events, notify)
-- Public: in docs/sql.md.
-- Appends the waiting events that are due by the server's clock, in order of due_at, then of
-- emission: at most max_events of them, and 8 MiB. Returns fired; next_due_in, when to call again
-- (NULL: nothing waits); failed, how many could not be appended. Events that failed keep waiting,
-- with their error, and are tried again after 1, 2, 4, … seconds, at most 10 minutes. They hold up
-- no other event.
-- A stream that an open transaction holds is not a failure: its events wait, and are tried again
-- after a second. No event passes an event of its stream that was due before, unless that one
-- failed.
-- Any number of sessions may call it. A session waits for another for up to a second, so that a
-- backlog goes out in order. Then it takes what the other has not locked. What stays locked is
-- tried again after a second.
-- Raises: WH001, WH002 (max_events); an error that concerns not one event but the server, such as a
-- full disk, with nothing changed.
-- Locks: a latch of the namespace; the rows of the events; see append_batch. Writes: due_events;
-- see append_batch.
CREATE OR REPLACE FUNCTION headwater.fire_due(namespace text, max_events int DEFAULT 1000, notify boolean DEFAULT true, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (fired int, next_due_in interval, failed int) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns       headwater_private.namespaces := headwater_private.open_namespace(fire_due.namespace, caller, NULL);
    timeout  text := current_setting('lock_timeout');
    -- How long to wait for streams that other open transactions hold. The first one gets 200 ms,
    -- all others 1 ms, or a thousand of them would take minutes.
    patience int := 200;
    ids      uuid[];
    streams  text[];
    late     uuid[];
    held     text[] := '{}';
    at       timestamptz := clock_timestamp();
    next_at  timestamptz;
    code     text;
BEGIN
    PERFORM headwater_private.check_max_events(fire_due.max_events);
    fired := 0;
    failed := 0;
    -- A caller that may not append finds nothing due.
    IF NOT headwater_private.is_granted(ns.namespace_id, caller, 'producer') THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT d.fire_at INTO next_at FROM headwater_private.due_events d
     WHERE d.namespace_id = ns.namespace_id ORDER BY d.fire_at, d.due_id LIMIT 1;
    IF next_at IS NULL OR next_at > at THEN
        next_due_in := next_at - at;
        RETURN NEXT;
        RETURN;
    END IF;

    BEGIN
        PERFORM set_config('lock_timeout', '1000', true);
        PERFORM headwater_private.latch(ns.namespace_id, 'firing');
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
    PERFORM set_config('lock_timeout', timeout, true);
    IF ns.sequence IS NULL THEN
        -- Wait for the counter as any writer does: that says nothing about an event.
        PERFORM FROM headwater_private.counters c WHERE c.namespace_id = ns.namespace_id FOR UPDATE;
    END IF;

    at := clock_timestamp();
    WITH locked AS MATERIALIZED (
        SELECT d.event_id, d.stream_id, d.due_at, d.fire_at, d.due_id, d.bytes FROM headwater_private.due_events d
         WHERE d.namespace_id = ns.namespace_id AND d.fire_at <= at
         ORDER BY d.fire_at, d.due_at, d.due_id LIMIT fire_due.max_events
           FOR UPDATE SKIP LOCKED
    ), taken AS MATERIALIZED (
        SELECT t.* FROM (SELECT l.*, sum(l.bytes) OVER (ORDER BY l.fire_at, l.due_at, l.due_id) - l.bytes AS before FROM locked l) t
         WHERE t.before < 8388608
    ), first_left AS MATERIALIZED (
        -- For each stream, the first waiting event that was not taken: it was put off, or another
        -- session has it.
        SELECT s.stream_id, l.due_at, l.due_id
          FROM (SELECT DISTINCT t.stream_id FROM taken t WHERE t.stream_id IS NOT NULL) s
         CROSS JOIN LATERAL (SELECT d.due_at, d.due_id FROM headwater_private.due_events d
                              WHERE d.namespace_id = ns.namespace_id AND d.stream_id = s.stream_id AND d.failures = 0
                                AND d.event_id NOT IN (SELECT t.event_id FROM taken t)
                              ORDER BY d.due_at, d.due_id LIMIT 1) l
    )
    SELECT array_agg(t.event_id ORDER BY t.due_at, t.due_id) FILTER (WHERE f.stream_id IS NULL),
           array_agg(t.stream_id ORDER BY t.due_at, t.due_id) FILTER (WHERE f.stream_id IS NULL),
           array_agg(t.event_id) FILTER (WHERE f.stream_id IS NOT NULL)
      INTO ids, streams, late
      FROM taken t LEFT JOIN first_left f ON f.stream_id = t.stream_id AND (f.due_at, f.due_id) < (t.due_at, t.due_id);

    IF ids IS NOT NULL THEN
        BEGIN
            fired := headwater_private.append_due(fire_due.namespace, ids, fire_due.notify, patience);
        EXCEPTION WHEN OTHERS THEN
            fired := NULL;
        END;
        IF fired IS NULL THEN
            fired := 0;
            FOR i IN 1..cardinality(ids) LOOP
                IF streams[i] = ANY (held) THEN
                    late := late || ids[i];
                    CONTINUE;
                END IF;
                BEGIN
                    fired := fired + headwater_private.append_due(fire_due.namespace, ids[i:i], fire_due.notify, patience);
                EXCEPTION WHEN OTHERS THEN
                    -- The error concerns the server, not the event: a serialization failure or
                    -- deadlock, resources, an operator, the system.
                    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE;
                    IF left(code, 2) IN ('40', '53', '57', '58', 'XX') THEN
                        RAISE;
                    END IF;
                    IF code = '55P03' AND streams[i] IS NOT NULL THEN
                        patience := 1;
                        held := held || streams[i];
                        late := late || ids[i];
                        CONTINUE;
                    END IF;
                    failed := failed + 1;
                    UPDATE headwater_private.due_events d
                       SET failures = d.failures + 1, error = format('%s: %s', code, SQLERRM),
                           fire_at = clock_timestamp() + least(interval '1 second' * 2 ^ least(d.failures, 10), interval '10 minutes')
                     WHERE d.namespace_id = ns.namespace_id AND d.event_id = ids[i];
                END;
            END LOOP;
        END IF;
        PERFORM set_config('lock_timeout', timeout, true);
    END IF;
    IF late IS NOT NULL THEN
        -- All get the same moment, so that they go out in the order in which they were due.
        UPDATE headwater_private.due_events d SET fire_at = at + interval '1 second',
               error = 'waits for its stream, which an open transaction or another session holds'
         WHERE d.namespace_id = ns.namespace_id AND d.event_id = ANY (late);
    END IF;

    SELECT d.fire_at INTO next_at FROM headwater_private.due_events d
     WHERE d.namespace_id = ns.namespace_id ORDER BY d.fire_at, d.due_id LIMIT 1;
    at := clock_timestamp();
    next_due_in := CASE WHEN next_at > at THEN next_at - at
                        WHEN ids IS NULL THEN interval '1 second'
                        WHEN next_at IS NOT NULL THEN interval '0' END;
    RETURN NEXT;
END
$$;
