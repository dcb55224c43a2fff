-- headwater.emit_batch(namespace, event_id, event_type, data, created_at, schema_version, key,
-- actor_id, correlation_id, causation_id, headers, patience_ms)
-- Appends events without streams to a namespace with a sequence, in one statement: a short way for
-- batches that need none of the care of headwater.append_batch. The steps of a function cost a
-- single event as much as its insert. The call is a transaction of its own.
-- Returns a row with the sequence of each event, in their order. Returns no row and writes nothing
-- if headwater.append_batch is needed: no such namespace; a gapless namespace, or one with its own
-- storage or an index; a lock that somebody holds against it; a payload that is too large; a name,
-- headers or a created_at that nobody could read; a month whose leaf or seal does not exist yet; an
-- id that may lie in a sealed month.
-- Raises: WH001, WH015; 23505 if events are stored already. Locks: shared advisory lock of the
-- horizon. Writes: one row per event.
CREATE OR REPLACE FUNCTION headwater.emit_batch(
    namespace text, event_id uuid[], event_type text[], data text[], created_at timestamptz[], schema_version int[], key text[], actor_id text[],
    correlation_id uuid[], causation_id uuid[], headers text[], patience_ms int, caller headwater.caller DEFAULT current_user
) RETURNS SETOF bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, schema_version,
                                  event_id, correlation_id, causation_id, event_type, key, actor_id, headers, data)
    SELECT nextval(e.sequence), e.transaction_id, e.created_at, e.recorded_at, e.namespace_id, coalesce(e.schema_version, 1),
           e.event_id, e.correlation_id, e.causation_id, e.event_type, e.key, e.actor_id, e.headers::jsonb, e.data::jsonb
      FROM (
          -- Set-returning functions in a SELECT list run in step, after their row is there:
          -- PostgreSQL builds no table of them and joins nothing.
          SELECT w.sequence, w.transaction_id, w.recorded_at, w.namespace_id, unnest(emit_batch.event_id) AS event_id,
                 unnest(emit_batch.event_type) AS event_type, unnest(emit_batch.data) AS data, unnest(emit_batch.created_at) AS created_at,
                 unnest(emit_batch.schema_version) AS schema_version, unnest(emit_batch.key) AS key, unnest(emit_batch.actor_id) AS actor_id,
                 unnest(emit_batch.correlation_id) AS correlation_id, unnest(emit_batch.causation_id) AS causation_id, unnest(emit_batch.headers) AS headers
            FROM (
                -- The lock, then the clock, then the sequence, as in append_batch. Each step needs
                -- the row of the step before, and OFFSET 0 keeps the planner from merging them into
                -- one.
                SELECT l.*, greatest(clock_timestamp(), l.sealed_before) AS recorded_at, pg_current_xact_id()::text::bigint AS transaction_id
                  FROM (
                      SELECT n.namespace_id, n.sequence, n.leaves_until, n.sealed_before, n.sealed_max_id, n.max_payload_bytes,
                             set_config('lock_timeout', emit_batch.patience_ms::text, true) AS patience,
                             pg_try_advisory_xact_lock_shared(
                                 headwater_private.writer_key(n.namespace_id, pg_sequence_last_value(n.sequence))) AS is_locked
                        FROM headwater_private.namespaces n
                       WHERE n.namespace = emit_batch.namespace AND n.storage = 'shared' AND pg_sequence_last_value(n.sequence) IS NOT NULL
                         AND (pg_has_role(caller, current_user, 'USAGE')
                              OR EXISTS (SELECT FROM headwater_private.grants g
                                          WHERE g.namespace_id = n.namespace_id AND g.kind IN ('producer', 'admin')
                                            AND pg_has_role(caller, g.role::oid, 'USAGE')))
                      OFFSET 0
                  ) l
                OFFSET 0
            ) w
           -- append_batch handles a type index. As there, this is read once the sequence is locked.
           WHERE w.is_locked AND (pg_sequence_parameters(w.sequence)).start_value = 0
             AND w.recorded_at < w.leaves_until AND w.sealed_before >= date_trunc('month', w.recorded_at, 'UTC')
             AND coalesce(w.sealed_max_id < ALL (emit_batch.event_id), true)
             AND coalesce('0001-01-01 00:00:00+00'::timestamptz <= ALL (emit_batch.created_at)
                          AND '9999-12-31 23:59:59.999999+00'::timestamptz >= ALL (emit_batch.created_at), true)
             AND (pg_column_size(emit_batch.data) <= w.max_payload_bytes
                  OR w.max_payload_bytes >= ALL (SELECT octet_length(d) FROM unnest(emit_batch.data) d))
             AND (emit_batch.headers IS NULL
                  OR NOT EXISTS (SELECT FROM unnest(emit_batch.headers) AS h(headers)
                                  WHERE octet_length(h.headers) > greatest(w.max_payload_bytes, 65536)))
             AND headwater_private.are_readable(emit_batch.event_type, emit_batch.key, emit_batch.actor_id, emit_batch.headers,
                                                emit_batch.schema_version)
      ) e
    RETURNING global_sequence;
    IF NOT FOUND THEN
        -- Raises the right error if the caller may not append at all.
        PERFORM headwater_private.open_namespace(emit_batch.namespace, caller, 'producer');
    END IF;
END
$$;
