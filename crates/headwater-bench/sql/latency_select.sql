-- What is new.
SELECT id, event_id, event_type, data FROM bench.latency WHERE id > $1 ORDER BY id LIMIT 1000
