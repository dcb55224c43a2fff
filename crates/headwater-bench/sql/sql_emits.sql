-- Emits, one by one.
SELECT count(headwater.emit($1, 'OrderPlaced', '{"number": 1}')) FROM generate_series(1, $2)
