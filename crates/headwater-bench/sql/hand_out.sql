-- Hands out $2 sequences of a namespace at once. Answers the first.
SELECT setval($1::oid::regclass, last_value + $2) - $2 + 1
  FROM pg_sequence_last_value($1::oid::regclass) AS last_value
