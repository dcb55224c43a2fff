-- headwater.emit_one(namespace, event_id, event_type, data, created_at, schema_version, key,
-- actor_id, correlation_id, causation_id, headers, patience_ms)
-- headwater.emit_batch for one event. It has no arrays, because handling them costs a single event
-- a tenth of its append. Returns its sequence. Returns NULL and writes nothing if
-- headwater.append_batch is needed, as in emit_batch.
-- Raises: WH001, WH015; 23505 if it is stored already. Locks: shared advisory lock of the horizon.
-- Writes: the event.
CREATE OR REPLACE FUNCTION headwater.emit_one(
    namespace text, event_id uuid, event_type text, data text, created_at timestamptz, schema_version int, key text, actor_id text,
    correlation_id uuid, causation_id uuid, headers text, patience_ms int, caller headwater.caller DEFAULT current_user
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    placed bigint;
BEGIN
    INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, schema_version,
                                  event_id, correlation_id, causation_id, event_type, key, actor_id, headers, data)
    SELECT nextval(w.sequence), pg_current_xact_id()::text::bigint, emit_one.created_at, w.recorded_at, w.namespace_id,
           coalesce(emit_one.schema_version, 1), emit_one.event_id, emit_one.correlation_id, emit_one.causation_id, emit_one.event_type,
           emit_one.key, emit_one.actor_id, emit_one.headers::jsonb, emit_one.data::jsonb
      FROM (
          -- The lock, then the clock, then the sequence, as in emit_batch.
          SELECT l.*, greatest(clock_timestamp(), l.sealed_before) AS recorded_at
            FROM (
                SELECT n.namespace_id, n.sequence, n.leaves_until, n.sealed_before, n.sealed_max_id, n.max_payload_bytes,
                       set_config('lock_timeout', emit_one.patience_ms::text, true) AS patience,
                       pg_try_advisory_xact_lock_shared(
                           headwater_private.writer_key(n.namespace_id, pg_sequence_last_value(n.sequence))) AS is_locked
                  FROM headwater_private.namespaces n
                 WHERE n.namespace = emit_one.namespace AND n.storage = 'shared' AND pg_sequence_last_value(n.sequence) IS NOT NULL
                   AND (pg_has_role(caller, current_user, 'USAGE')
                        OR EXISTS (SELECT FROM headwater_private.grants g
                                    WHERE g.namespace_id = n.namespace_id AND g.kind IN ('producer', 'admin')
                                      AND pg_has_role(caller, g.role::oid, 'USAGE')))
                OFFSET 0
            ) l
          OFFSET 0
      ) w
     WHERE w.is_locked AND (pg_sequence_parameters(w.sequence)).start_value = 0
       AND w.recorded_at < w.leaves_until AND w.sealed_before >= date_trunc('month', w.recorded_at, 'UTC')
       AND coalesce(w.sealed_max_id < emit_one.event_id, true)
       AND emit_one.created_at BETWEEN '0001-01-01 00:00:00+00'::timestamptz AND '9999-12-31 23:59:59.999999+00'::timestamptz
       AND octet_length(emit_one.data) <= w.max_payload_bytes
       -- What every reader can read, as in are_readable.
       AND octet_length(emit_one.event_type) BETWEEN 1 AND 255
       AND coalesce(octet_length(emit_one.key) BETWEEN 1 AND 512, true)
       AND coalesce(octet_length(emit_one.actor_id) BETWEEN 1 AND 512, true)
       AND concat(emit_one.event_type, emit_one.key, emit_one.actor_id) !~ E'[\\x01-\\x1f\\x7f]'
       AND coalesce(emit_one.schema_version > 0, true)
       AND (emit_one.headers IS NULL
            OR octet_length(emit_one.headers) <= greatest(w.max_payload_bytes, 65536)
               AND jsonb_typeof(emit_one.headers::jsonb) = 'object'
               AND NOT jsonb_path_exists(emit_one.headers::jsonb, 'strict $.* ? (@.type() != "string")'))
    RETURNING global_sequence INTO placed;
    IF NOT FOUND THEN
        -- Raises the right error if the caller may not append at all.
        PERFORM headwater_private.open_namespace(emit_one.namespace, caller, 'producer');
    END IF;
    RETURN placed;
END
$$;
