-- Loads $3 events in streams of 100, from number $4 on. The payloads of $5 and the types of $6 are
-- used in turn.
INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id,
                              correlation_id, event_type, stream_id, stream_version, data)
SELECT nextval($1::oid::regclass), (SELECT pg_current_xact_id()::text::bigint), now(), now(), $2, gen_random_uuid(),
       gen_random_uuid(), ($6::text[])[n % cardinality($6::text[]) + 1], 'order-' || n / 100, n % 100 + 1, ($5::text[])[n % cardinality($5::text[]) + 1]::jsonb
  FROM generate_series($4::bigint, $4::bigint + $3 - 1) AS n
