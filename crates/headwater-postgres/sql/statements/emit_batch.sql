-- Appends events without streams to a namespace with a sequence: what headwater.append_batch does, for batches that need none of its
-- care, in one statement, since the steps of a function cost a lone event as much as its insert. It is a transaction of its own.
-- Answers a row with the sequence of each event, in their order; no row, with nothing written, when care is needed: no such namespace,
-- a gapless one, a payload too large, a month whose leaf or seal is not there yet, an id that may lie in a sealed month.
-- Raises: 23505 if events are stored already.
INSERT INTO headwater.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, schema_version,
                              event_id, correlation_id, causation_id, event_type, key, actor_id, headers, data)
SELECT nextval(e.sequence), e.transaction_id, e.created_at, e.recorded_at, e.namespace_id, coalesce(e.schema_version, 1),
       e.event_id, e.correlation_id, e.causation_id, e.event_type, e.key, e.actor_id, e.headers::jsonb, e.data::jsonb
  FROM (
      -- Functions in the list of a SELECT run in step, after its row is there: no table of them is built, nor joined.
      SELECT w.sequence, w.transaction_id, w.recorded_at, w.namespace_id, unnest($2::uuid[]) AS event_id,
             unnest($3::text[]) AS event_type, unnest($4::text[]) AS data, unnest($5::timestamptz[]) AS created_at,
             unnest($6::int[]) AS schema_version, unnest($7::text[]) AS key, unnest($8::text[]) AS actor_id,
             unnest($9::uuid[]) AS correlation_id, unnest($10::uuid[]) AS causation_id, unnest($11::text[]) AS headers
        FROM (
            -- The lock, then the clock, then the sequence, as in append_batch: each needs the row of the one before, and OFFSET 0
            -- keeps the planner from making one of them.
            SELECT l.*, greatest(clock_timestamp(), l.sealed_before) AS recorded_at, pg_current_xact_id()::text::bigint AS transaction_id
              FROM (
                  SELECT n.namespace_id, n.sequence, n.leaves_until, n.sealed_before, n.sealed_max_id, n.max_payload_bytes,
                         set_config('lock_timeout', $12::text, true) AS patience,
                         pg_advisory_xact_lock_shared((18519::bigint << 48) | (n.namespace_id::bigint << 32)
                                                      | (pg_sequence_last_value(n.sequence) & 4294967295)) AS lock
                    FROM headwater.namespaces n WHERE n.namespace = $1 AND pg_sequence_last_value(n.sequence) IS NOT NULL
                  OFFSET 0
              ) l
            OFFSET 0
        ) w
       WHERE w.recorded_at < w.leaves_until AND w.sealed_before >= date_trunc('month', w.recorded_at, 'UTC')
         AND coalesce(w.sealed_max_id < ALL ($2::uuid[]), true)
         AND (pg_column_size($4::text[]) <= w.max_payload_bytes
              OR w.max_payload_bytes >= ALL (SELECT octet_length(d) FROM unnest($4::text[]) d))
  ) e
RETURNING global_sequence
