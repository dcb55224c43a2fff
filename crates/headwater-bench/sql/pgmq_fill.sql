-- Messages to read: $2 of them, with the payloads of $1 in turn.
SELECT count(*) FROM pgmq.send_batch('bench', ARRAY(
    SELECT (($1::text[])[n % cardinality($1::text[]) + 1])::jsonb FROM generate_series(0, $2::bigint - 1) AS n))
