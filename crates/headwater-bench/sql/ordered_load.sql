-- A backlog of $2 events with keys.
SELECT count(headwater.emit($1, 'OrderPlaced', jsonb_build_object('total', n, 'note', repeat('x', 120)), key => 'customer-' || n % 100))
  FROM generate_series(1, $2::bigint) AS n
