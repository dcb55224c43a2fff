-- One row; the trigger notifies.
INSERT INTO bench.notified (event_id, event_type, data) VALUES ($1, $2, $3) RETURNING id
