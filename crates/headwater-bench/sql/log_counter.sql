-- The next number and the row in one statement: one round trip, one transaction.
WITH next AS (
    UPDATE bench.log_counter SET last_sequence = last_sequence + 1 WHERE id = 1 RETURNING last_sequence
)
INSERT INTO bench.counted (sequence, event_id, event_type, data)
SELECT next.last_sequence, $1, $2, $3 FROM next
RETURNING sequence
