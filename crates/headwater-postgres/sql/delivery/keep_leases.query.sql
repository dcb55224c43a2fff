-- Renews and takes leases, and returns in which history that happened.
SELECT subscriber_id, partition, term, paused, redrives, holds_lock, (SELECT headwater.begin_history()) AS history
  FROM headwater.keep_leases($1, $2, $3, $4, $5, $6, $7, $8, $9::text[]::jsonb[], $10, $11)
