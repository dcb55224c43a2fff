-- Who may still commit events.
SELECT above_sequence, pid, application_name, started_at, extract(epoch FROM pg_catalog.clock_timestamp() - started_at)::float8 AS age
  FROM headwater.writers($1)
 ORDER BY above_sequence, pid
