-- How many events went into one transaction, on average, of those after a sequence.
-- Counted in the rows: the counters of pg_stat_database come up to a second late.
SELECT count(*)::float8 / greatest(count(DISTINCT transaction_id), 1)
  FROM headwater_private.events WHERE namespace_id = $1 AND global_sequence > $2
