-- An array of events of so many bytes each, which do not compress.
INSERT INTO bench.sql_events (name, events)
SELECT $1, jsonb_agg(jsonb_build_object('type', 'OrderPlaced', 'data', jsonb_build_object('number', i, 'text',
           (SELECT string_agg(md5(i || '-' || k), '') FROM generate_series(1, $3 / 32) k))))
  FROM generate_series(1, $2) i
