-- Stores an event until it is due: at a time, or in a number of microseconds.
SELECT appended, soon
  FROM headwater.store_due($1, $2, $3, coalesce($4, pg_catalog.clock_timestamp() + $5::bigint * interval '1 microsecond'), $6, $7, $8, $9, $10, $11,
                           $12, $13, $14, $15)
