-- What a handler does.
INSERT INTO handled (message_id, payload) VALUES ($1, $2::jsonb)
