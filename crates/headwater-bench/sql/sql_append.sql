-- The events of an array, appended to a new stream.
SELECT count(*) FROM bench.sql_events s, headwater.append('shop', 'stream-' || gen_random_uuid(), s.events) WHERE s.name = $1
