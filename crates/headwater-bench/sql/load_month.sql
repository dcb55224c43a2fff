-- Events of a month: so many ($4), so many months ago ($3), with the payloads of $5 in turn.
INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id,
                              correlation_id, event_type, stream_id, stream_version, data)
SELECT nextval($1::oid::regclass), (SELECT pg_current_xact_id()::text::bigint), m.at + n * interval '1 millisecond',
       m.at + n * interval '1 millisecond', $2, gen_random_uuid(), gen_random_uuid(), 'OrderPlaced', 'order-' || $3 || '-' || n / 100, n % 100 + 1,
       ($5::text[])[n % cardinality($5::text[]) + 1]::jsonb
  FROM (SELECT (date_trunc('month', now() AT TIME ZONE 'UTC') - $3::int * interval '1 month') AT TIME ZONE 'UTC' AS at) m,
       generate_series(1, $4::bigint) AS n
