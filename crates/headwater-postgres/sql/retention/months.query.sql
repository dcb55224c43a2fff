-- Lists the months of a namespace's log, oldest first.
SELECT starts_at, ends_at, leaf, events, bytes, first_sequence, last_sequence, sealed_at, trimmed_at, dropped_at, due_at,
       sealed_at IS NOT NULL AND trimmed_at IS NULL AND due_at <= pg_catalog.clock_timestamp() AS due, held_by
  FROM headwater.months($1)
