-- Renews and takes leases.
SELECT subscriber_id, term, paused, redrives, holds_lock
  FROM headwater.keep_leases($1, $2, $3, $4, $5, $6, $7::text[]::jsonb[], $8, $9)
