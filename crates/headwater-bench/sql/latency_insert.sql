-- One row, committed by itself.
INSERT INTO bench.latency (event_id, event_type, data) VALUES ($1, $2, $3) RETURNING id
