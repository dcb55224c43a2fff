-- Appends events without streams to a namespace with a sequence: what headwater.append_batch does, for batches that need none of its
-- care, in one statement, since the steps of a function cost a lone event as much as its insert. It is a transaction of its own.
-- Answers the sequences in the order of the events, or NULL, with nothing written, when care is needed: no such namespace, a gapless
-- one, a payload too large, a month whose leaf or seal is not there yet, an id that may lie in a sealed month.
-- Raises: 23505 if events are stored already.
WITH entered AS MATERIALIZED (
    SELECT n.namespace_id, n.sequence, n.leaves_until, n.sealed_before, n.sealed_max_id, n.max_payload_bytes,
           set_config('lock_timeout', $12::text, true) AS patience,
           pg_advisory_xact_lock_shared((18519::bigint << 48) | (n.namespace_id::bigint << 32)
                                        | (pg_sequence_last_value(n.sequence) & 4294967295)) AS lock
      FROM headwater.namespaces n WHERE n.namespace = $1 AND pg_sequence_last_value(n.sequence) IS NOT NULL
), timed AS MATERIALIZED (
    -- The lock, then the clock, then the sequence, as in append_batch: each needs the row of the one before.
    SELECT e.*, clock_timestamp() AS recorded_at, pg_current_xact_id()::text::bigint AS transaction_id FROM entered e
), writer AS MATERIALIZED (
    SELECT t.* FROM timed t
     WHERE t.recorded_at < t.leaves_until AND t.sealed_before >= date_trunc('month', t.recorded_at, 'UTC')
       AND coalesce(t.sealed_max_id < ALL ($2::uuid[]), true)
       AND (pg_column_size($4::text[]) <= t.max_payload_bytes
            OR t.max_payload_bytes >= ALL (SELECT octet_length(d) FROM unnest($4::text[]) d))
), inserted AS (
    INSERT INTO headwater.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, schema_version,
                                  event_id, correlation_id, causation_id, event_type, key, actor_id, headers, data)
    SELECT nextval(w.sequence), w.transaction_id, e.created_at, w.recorded_at, w.namespace_id, coalesce(e.schema_version, 1),
           e.event_id, e.correlation_id, e.causation_id, e.event_type, e.key, e.actor_id, e.headers::jsonb, e.data::jsonb
      FROM writer w,
           unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[], $6::int[], $7::text[], $8::text[], $9::uuid[], $10::uuid[],
                  $11::text[])
           AS e(event_id, event_type, data, created_at, schema_version, key, actor_id, correlation_id, causation_id, headers)
    RETURNING global_sequence
)
SELECT array_agg(i.global_sequence) FROM inserted i
