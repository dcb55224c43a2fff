-- Lists who may still commit events, if the server is in the given history.
SELECT above_sequence, pid, application_name, started_at, extract(epoch FROM pg_catalog.clock_timestamp() - started_at)::float8 AS age, transaction
  FROM headwater.writers($1)
 WHERE headwater.require_history($2)
 ORDER BY above_sequence, pid
