-- Appends events without streams to a namespace with a sequence: what headwater.append_batch does, for batches that need none of its
-- care, in one statement, since the steps of a function cost a lone event as much as its insert. It is a transaction of its own.
-- Answers a row with the sequence of each event, in their order; no row, with nothing written, when care is needed: no such namespace,
-- a gapless one, a lock that somebody holds against it, a payload too large, a created_at that nobody could read, a month whose leaf or seal is not there yet, an id that may lie in a sealed month.
-- Only the owner of the tables can run it. It has no search_path of its own: its functions are named with their schema, and its operators are
-- those of pg_catalog for exactly these types, which come first.
-- Raises: 23505 if events are stored already.
INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, schema_version,
                              event_id, correlation_id, causation_id, event_type, key, actor_id, headers, data)
SELECT pg_catalog.nextval(e.sequence), e.transaction_id, e.created_at, e.recorded_at, e.namespace_id, coalesce(e.schema_version, 1),
       e.event_id, e.correlation_id, e.causation_id, e.event_type, e.key, e.actor_id, e.headers::jsonb, e.data::jsonb
  FROM (
      -- Functions in the list of a SELECT run in step, after its row is there: no table of them is built, nor joined.
      SELECT w.sequence, w.transaction_id, w.recorded_at, w.namespace_id, pg_catalog.unnest($2::uuid[]) AS event_id,
             pg_catalog.unnest($3::text[]) AS event_type, pg_catalog.unnest($4::text[]) AS data, pg_catalog.unnest($5::timestamptz[]) AS created_at,
             pg_catalog.unnest($6::int[]) AS schema_version, pg_catalog.unnest($7::text[]) AS key, pg_catalog.unnest($8::text[]) AS actor_id,
             pg_catalog.unnest($9::uuid[]) AS correlation_id, pg_catalog.unnest($10::uuid[]) AS causation_id, pg_catalog.unnest($11::text[]) AS headers
        FROM (
            -- The lock, then the clock, then the sequence, as in append_batch: each needs the row of the one before, and OFFSET 0
            -- keeps the planner from making one of them.
            SELECT l.*, greatest(pg_catalog.clock_timestamp(), l.sealed_before) AS recorded_at, pg_catalog.pg_current_xact_id()::text::bigint AS transaction_id
              FROM (
                  SELECT n.namespace_id, n.sequence, n.leaves_until, n.sealed_before, n.sealed_max_id, n.max_payload_bytes,
                         pg_catalog.set_config('lock_timeout', $12::text, true) AS patience,
                         pg_catalog.pg_try_advisory_xact_lock_shared(
                             (18519::bigint << 48) | (n.namespace_id::bigint << 32)
                             | (pg_catalog.pg_sequence_last_value(n.sequence) & 4294967295)) AS is_locked
                    FROM headwater_private.namespaces n WHERE n.namespace = $1 AND pg_catalog.pg_sequence_last_value(n.sequence) IS NOT NULL
                  OFFSET 0
              ) l
            OFFSET 0
        ) w
       WHERE w.is_locked AND w.recorded_at < w.leaves_until AND w.sealed_before >= pg_catalog.date_trunc('month', w.recorded_at, 'UTC')
         AND coalesce(w.sealed_max_id < ALL ($2::uuid[]), true)
         AND coalesce('0001-01-01 00:00:00+00'::timestamptz <= ALL ($5::timestamptz[])
                      AND '9999-12-31 23:59:59.999999+00'::timestamptz >= ALL ($5::timestamptz[]), true)
         AND (pg_catalog.pg_column_size($4::text[]) <= w.max_payload_bytes
              OR w.max_payload_bytes >= ALL (SELECT pg_catalog.octet_length(d) FROM pg_catalog.unnest($4::text[]) d))
  ) e
RETURNING global_sequence
