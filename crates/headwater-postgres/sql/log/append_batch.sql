-- headwater.append_batch(namespace, …)
-- Appends the events of one or more requests, in the given order, in one statement. Each request
-- succeeds or fails by itself: a version conflict in one leaves the others alone. headwater.append
-- and headwater.emit call this function. So does the Rust client, which sends the queued requests
-- of its callers as one batch.
--
-- Per event: request (NULL: all are request 1), event_id, event_type, data and so on. An array may
-- be NULL when no event has a value there. `write` names the event's row in the write arrays (NULL:
-- an event without a stream). `write_offset` is the event's place among the batch's events of that
-- stream, from 1. Per write (one per request and stream): write_request, write_stream, write_count
-- (events), write_expected:
--     NULL any version, 0 no stream, -1 the stream exists, n exactly version n.
-- `notify`: wake readers from within this transaction, unless the namespace has switched that off.
-- `patience_ms`: give up (55P03) after waiting this long for a lock; NULL: use the session's own
-- lock_timeout. Several requests may write to one stream only if each expects any version and has
-- no other write.
--
-- Returns:
-- - sequences, aligned with the events; NULL: the event's request failed
-- - bases, aligned with the writes: the stream's version before the write
-- - succeeded, aligned with the requests; NULL: all succeeded
-- - retried: the one request was stored before; sequences and versions are those of the first time
-- - echoes: requests of a batch of several that failed but are stored already; send each of them
--   alone
-- - recorded_at, transaction_id
--
-- Gapless: numbers come from the counter row. Each append locks that row until its transaction
-- ends. A transaction writes the row at most three times, however often it appends: PostgreSQL
-- cannot prune the versions of a row inside one transaction, and finding the last version means
-- walking over all of them, so n versions would make n appends cost n². The first append of a
-- transaction writes the number it reached and its transaction id. The second append marks the row
-- as open. From then on the last number is the sequence of the last event, which is a lookup at the
-- end of an index, and the row stays unchanged. At commit a deferred trigger writes the number and
-- closes the row (close_counter). Why no number is handed out twice, and none is left out:
--   1. In committed data, the row is closed and exact. So trimming, deleting or moving events later
--      does not matter: no other transaction looks at them. (If triggers were switched off, the row
--      stays open, and the next append looks up the last event.)
--   2. Only the transaction that holds the lock sees its own row open. Nobody else can append until
--      it ends, so the last event that it sees is the last event there is, and all numbers up to it
--      are taken.
--   3. A rollback to a savepoint takes back the events, the mark and the queued trigger together.
--      The result is a state that this transaction was in before.
--   4. Every transaction that appends writes the row at least once. Under REPEATABLE READ and
--      SERIALIZABLE, a transaction whose snapshot is older than another's commit therefore fails
--      when it locks the row (40001). A transaction that gets the lock sees everything that was
--      committed.
-- Locking the row again in the same transaction creates no version and no multixact.
--
-- Raises: WH001 (no namespace), WH002 (a name, headers, schema_version or created_at; writes that
-- do not fit), WH004 (payload too large), WH005 (event id used again),
--     40001 (in a transaction that keeps one snapshot, after the namespace was moved to other
--     storage),
--     23505 if a batch of several requests holds events that are stored already: send the requests
--     one by one.
-- Locks: shared advisory lock of the horizon; the rows of existing streams, in order of their ids;
-- the counter row (gapless).
-- Writes: one row per event and one per stream; one more per event if the namespace has a type
-- index.
CREATE OR REPLACE FUNCTION headwater.append_batch(
    namespace      text,
    request        int[],
    event_id       uuid[],
    event_type     text[],
    data           text[],
    stream_id      text[],
    write          int[],
    write_offset   int[],
    schema_version int[],
    key            text[],
    actor_id       text[],
    correlation_id uuid[],
    causation_id   uuid[],
    headers        text[],
    created_at     timestamptz[],
    write_request  int[],
    write_stream   text[],
    write_count    int[],
    write_expected bigint[],
    notify         boolean,
    patience_ms    int,
    OUT sequences bigint[], OUT bases bigint[], OUT succeeded boolean[], OUT retried boolean,
    OUT versions bigint[], OUT echoes int[], OUT recorded_at timestamptz, OUT transaction_id bigint,
    caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    ns       headwater_private.namespaces;
    several  boolean := coalesce(request[cardinality(request)] > 1, false);
    counter  headwater_private.counters;
    last_seq bigint;
    too_big  int;
    misfit   boolean;
    -- Whether these events also go into the type index.
    indexed  boolean;
    done     text;
BEGIN
    -- Assignments stand where PERFORM would do: plpgsql evaluates an assignment without the
    -- machinery of a query.
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace = append_batch.namespace;
    IF NOT FOUND OR pg_has_role(caller, current_user, 'USAGE') IS NOT TRUE THEN
        ns := headwater_private.open_namespace(namespace, caller, 'producer');
    END IF;
    misfit := request[cardinality(request)] > cardinality(request);
    IF write_stream IS NOT NULL OR stream_id IS NOT NULL OR write IS NOT NULL THEN
        misfit := misfit IS TRUE
            OR EXISTS (SELECT FROM (SELECT unnest(write_request) AS number, unnest(write_count) AS events) w
                        WHERE (w.number BETWEEN 1 AND coalesce(request[cardinality(request)], 1) AND w.events > 0) IS NOT TRUE)
            OR (SELECT sum(w.events) FROM (SELECT unnest(write_count) AS events) w) <> (SELECT count(w.place) FROM (SELECT unnest(write) AS place) w);
        -- A loop instead of a statement: plpgsql subscripts its own arrays in constant time. A plan
        -- for these values holds the arrays flat and walks each one from its start, and a join may
        -- get a plan that was made for short arrays. Both would be quadratic.
        FOR i IN 1 .. coalesce(greatest(cardinality(stream_id), cardinality(write), cardinality(write_offset)), 0) LOOP
            EXIT WHEN misfit;
            misfit := (stream_id[i] = write_stream[write[i]] AND write_offset[i] BETWEEN 1 AND cardinality(event_id)) IS NOT TRUE
                      AND (stream_id[i] IS NOT NULL OR write[i] IS NOT NULL OR write_offset[i] IS NOT NULL);
        END LOOP;
    END IF;
    IF misfit THEN
        PERFORM headwater_private.fail('WH002', 'invalid requests or writes', jsonb_build_object('what', 'write_count', 'value', write_count),
            'requests are numbered from 1; a write names its request, and how many events it has');
    END IF;
    retried := false;
    transaction_id := pg_current_xact_id()::text::bigint;
    IF octet_length(data[1]) > ns.max_payload_bytes OR cardinality(data) > 1 OR headers IS NOT NULL THEN
        SELECT max(p.bytes) INTO too_big
          FROM (SELECT octet_length(d.d) AS bytes, ns.max_payload_bytes AS most FROM (SELECT unnest(data) AS d) d
                 UNION ALL
                SELECT octet_length(h.h), greatest(ns.max_payload_bytes, 65536) FROM (SELECT unnest(headers) AS h) h) p
         WHERE p.bytes > p.most;
        IF too_big IS NOT NULL THEN
            PERFORM headwater_private.fail('WH004',
                format('payload of %s bytes is larger than the %s that namespace %L allows', too_big, ns.max_payload_bytes, namespace),
                jsonb_build_object('bytes', too_big, 'limit', ns.max_payload_bytes),
                'keep large data elsewhere and refer to it, or raise max_payload_bytes with headwater.alter_namespace');
        END IF;
    END IF;
    -- Most events have short names and no headers. This checks them without a call.
    IF NOT (headers IS NULL AND schema_version IS NULL AND octet_length(array_to_string(event_type || key || actor_id, '')) <= 255
            AND array_to_string(event_type || key || actor_id, '') !~ E'[\\x01-\\x1f\\x7f]'
            AND '' <> ALL (event_type) AND coalesce('' <> ALL (key), true) AND coalesce('' <> ALL (actor_id), true)
            OR headwater_private.are_readable(event_type, key, actor_id, headers, schema_version)) THEN
        PERFORM headwater_private.check_event(e.event_type, e.key, e.actor_id, e.headers::jsonb, e.schema_version)
           FROM unnest(event_type, key, actor_id, headers, schema_version) AS e(event_type, key, actor_id, headers, schema_version);
    END IF;
    IF NOT coalesce('0001-01-01 00:00:00+00' <= ALL (created_at) AND '9999-12-31 23:59:59.999999+00' >= ALL (created_at), true) THEN
        PERFORM headwater_private.check_time('created_at', c) FROM unnest(created_at) c;
    END IF;
    IF patience_ms IS NOT NULL THEN
        done := set_config('lock_timeout', patience_ms::text, true);
    END IF;
    -- The lock, then the clock, then the sequence: the proofs of horizon and prepare_months depend
    -- on this order.
    IF ns.sequence IS NOT NULL THEN
        done := headwater_private.enter_log(ns.namespace_id, ns.sequence);
        -- Read this after enter_log: enter_log locks the sequence, and set_index cannot change the
        -- value until the lock is released.
        indexed := (pg_sequence_parameters(ns.sequence)).start_value = 1;
    ELSE
        SELECT c.* INTO counter FROM headwater_private.counters c WHERE c.namespace_id = ns.namespace_id FOR UPDATE;
        IF NOT FOUND THEN
            -- The namespace was dropped while this waited for the lock.
            ns := headwater_private.namespace_again(ns.namespace_id);
        END IF;
        IF counter.storage <> ns.storage THEN
            -- The namespace was moved to other storage while this waited for the lock.
            ns := headwater_private.namespace_again(ns.namespace_id);
        END IF;
        last_seq := counter.last_sequence;
        indexed := counter.has_index;
        IF counter.is_open THEN
            -- A separate statement after the lock: its snapshot shows what the earlier holders of
            -- the lock have committed.
            last_seq := greatest(last_seq, headwater_private.highest_event(ns.namespace_id));
        END IF;
    END IF;
    -- Never record into a sealed month, whatever the clock does.
    recorded_at := greatest(clock_timestamp(), ns.sealed_before);
    IF recorded_at >= ns.leaves_until THEN
        PERFORM headwater_private.need_month(ns, recorded_at);
        ns := headwater_private.namespace_again(ns.namespace_id);
    END IF;

    -- The unique index of the current month's leaf finds an event that is stored there already. It
    -- cannot see older leaves.
    IF ns.sealed_before < date_trunc('month', recorded_at, 'UTC')
       OR ns.sealed_max_id >= ANY (event_id) THEN
        IF several THEN
            IF EXISTS (SELECT FROM headwater_private.stored_events(ns.namespace_id, event_id)) THEN
                RAISE unique_violation USING MESSAGE = 'the batch holds events that are stored already';
            END IF;
        ELSE
            SELECT s.* INTO sequences, versions FROM headwater_private.stored_append(ns.namespace_id, event_id, event_type, stream_id) s;
            IF sequences IS NOT NULL THEN
                retried := true;
                RETURN;
            END IF;
        END IF;
    END IF;

    BEGIN
        IF write_stream IS NOT NULL THEN
            SELECT s.* INTO bases, succeeded
              FROM headwater_private.advance_streams(ns.namespace_id, write_request, write_stream, write_count, write_expected, recorded_at) s;
        END IF;
        IF succeeded IS NULL THEN
            IF ns.sequence IS NOT NULL THEN
                sequences := ARRAY(SELECT nextval(ns.sequence) FROM (SELECT unnest(event_id)) e);
            ELSE
                sequences := ARRAY(SELECT generate_series(last_seq + 1, last_seq + cardinality(event_id)));
            END IF;
        ELSIF ns.sequence IS NOT NULL THEN
            sequences := ARRAY(SELECT CASE WHEN coalesce(succeeded[r.request], true) THEN nextval(ns.sequence) END
                                 FROM unnest(coalesce(request, array_fill(1, ARRAY[cardinality(event_id)]))) AS r(request));
        ELSE
            sequences := ARRAY(SELECT CASE WHEN coalesce(succeeded[r.request], true) THEN last_seq + count(*)
                                          FILTER (WHERE coalesce(succeeded[r.request], true)) OVER (ORDER BY r.ord) END
                                 FROM unnest(coalesce(request, array_fill(1, ARRAY[cardinality(event_id)])))
                                      WITH ORDINALITY AS r(request, ord) ORDER BY r.ord);
        END IF;
        -- Set-returning functions in a SELECT list run in step and collect nothing. Subscripting
        -- the arrays would be quadratic: a plan for these values holds the arrays flat and walks
        -- each one from its start.
        IF ns.storage = 'shared' THEN
            INSERT INTO headwater_private.events (global_sequence, stream_version, transaction_id, created_at, recorded_at, namespace_id,
                                          schema_version, event_id, correlation_id, causation_id, event_type, stream_id, key,
                                          actor_id, headers, data)
            SELECT e.sequence, bases[e.write] + e.write_offset, transaction_id, coalesce(e.created_at, recorded_at),
                   recorded_at, ns.namespace_id, coalesce(e.schema_version, 1), e.event_id, e.correlation_id,
                   e.causation_id, e.event_type, e.stream_id, e.key, e.actor_id, e.headers::jsonb, e.data::jsonb
              FROM (SELECT unnest(sequences) AS sequence, unnest(event_id) AS event_id, unnest(event_type) AS event_type, unnest(data) AS data,
                           unnest(stream_id) AS stream_id, unnest(write) AS write, unnest(write_offset) AS write_offset,
                           unnest(schema_version) AS schema_version, unnest(key) AS key, unnest(actor_id) AS actor_id,
                           unnest(correlation_id) AS correlation_id, unnest(causation_id) AS causation_id, unnest(headers) AS headers,
                           unnest(created_at) AS created_at) e
             WHERE e.sequence IS NOT NULL;
        ELSE
            EXECUTE format(
                'INSERT INTO headwater_private.%I (global_sequence, stream_version, transaction_id, created_at, recorded_at, namespace_id,
                                                   schema_version, event_id, correlation_id, causation_id, event_type, stream_id, key,
                                                   actor_id, headers, data)
                 SELECT e.sequence, $2[e.write] + e.write_offset, $5, coalesce(e.created_at, $7), $7, $8, coalesce(e.schema_version, 1), e.event_id,
                        e.correlation_id, e.causation_id, e.event_type, e.stream_id, e.key, e.actor_id, e.headers::jsonb, e.data::jsonb
                   FROM (SELECT unnest($1) AS sequence, unnest($3) AS write, unnest($4) AS write_offset, unnest($6) AS created_at,
                                unnest($9) AS schema_version, unnest($10) AS event_id, unnest($11) AS correlation_id, unnest($12) AS causation_id,
                                unnest($13) AS event_type, unnest($14) AS stream_id, unnest($15) AS key, unnest($16) AS actor_id,
                                unnest($17) AS headers, unnest($18) AS data) e
                  WHERE e.sequence IS NOT NULL', headwater_private.log_table(ns))
              USING sequences, bases, write, write_offset, transaction_id, created_at, recorded_at, ns.namespace_id, schema_version, event_id,
                    correlation_id, causation_id, event_type, stream_id, key, actor_id, headers, data;
        END IF;
        IF indexed THEN
            INSERT INTO headwater_private.type_index (namespace_id, event_type, global_sequence)
            SELECT ns.namespace_id, e.event_type, e.sequence
              FROM (SELECT unnest(sequences) AS sequence, unnest(event_type) AS event_type) e
             WHERE e.sequence IS NOT NULL;
        END IF;
        -- After the events, so that a trigger that closes the counter at once finds them.
        IF ns.sequence IS NULL THEN
            IF counter.moved_by <> transaction_id THEN
                UPDATE headwater_private.counters c
                   SET last_sequence = coalesce((SELECT max(s.s) FROM (SELECT unnest(sequences) AS s) s), last_seq), moved_by = transaction_id,
                       is_open = false
                 WHERE c.namespace_id = ns.namespace_id;
            ELSIF NOT counter.is_open THEN
                UPDATE headwater_private.counters c SET is_open = true WHERE c.namespace_id = ns.namespace_id;
            END IF;
        END IF;
    EXCEPTION WHEN sequence_generator_limit_exceeded THEN
        -- The namespace was moved to other storage since this call read its row, and now has
        -- another sequence.
        IF (SELECT n.sequence FROM headwater_private.namespaces n WHERE n.namespace_id = ns.namespace_id) IS NOT DISTINCT FROM ns.sequence THEN
            RAISE serialization_failure USING MESSAGE = 'could not serialize access: the namespace was moved to other storage',
                HINT = 'run the transaction again';
        END IF;
        SELECT a.* INTO sequences, bases, succeeded, retried, versions, echoes, recorded_at, transaction_id
          FROM headwater.append_batch(namespace, request, event_id, event_type, data, stream_id, write, write_offset, schema_version, key, actor_id,
                   correlation_id, causation_id, headers, created_at, write_request, write_stream, write_count, write_expected, notify, patience_ms) a;
        RETURN;
    WHEN unique_violation THEN
        IF several THEN
            RAISE;
        END IF;
        SELECT s.* INTO sequences, versions FROM headwater_private.stored_append(ns.namespace_id, event_id, event_type, stream_id) s;
        IF sequences IS NULL THEN
            RAISE;
        END IF;
        retried := true;
        RETURN;
    END;

    -- A conflict can be the echo of a success: the same append, sent again.
    IF NOT several AND NOT succeeded[1] THEN
        SELECT s.* INTO sequences, versions FROM headwater_private.stored_append(ns.namespace_id, event_id, event_type, stream_id) s;
        retried := sequences IS NOT NULL;
        RETURN;
    ELSIF succeeded IS NOT NULL THEN
        echoes := ARRAY(SELECT DISTINCT r.request FROM unnest(request, event_id) AS r(request, event_id)
                          JOIN headwater_private.stored_events(ns.namespace_id, event_id) f ON f.event_id = r.event_id
                         WHERE NOT succeeded[r.request]);
    END IF;
    IF notify AND ns.notify AND headwater_private.may_notify() THEN
        PERFORM pg_notify('headwater_' || namespace, '');
    END IF;
END
$$;
