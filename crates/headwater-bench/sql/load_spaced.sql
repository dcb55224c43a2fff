-- Loads $3 events. The first has the sequence $2, and each next one is $5 higher. The payloads of
-- $4 are used in turn. These sequences were handed out before.
INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id,
                              correlation_id, event_type, data)
SELECT $2::bigint + $5::bigint * n, (SELECT pg_current_xact_id()::text::bigint), now(), now(), $1, gen_random_uuid(),
       gen_random_uuid(), 'OrderPlaced', ($4::text[])[n % cardinality($4::text[]) + 1]::jsonb
  FROM generate_series(0, $3::bigint - 1) AS n
