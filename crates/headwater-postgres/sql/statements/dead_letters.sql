-- Dead letters.
SELECT subscriber_id, event, order_key, state, parks_key, attempts, created_at, updated_at, reason
  FROM headwater_private.matching_letters($1, $2, $3, $4, $5, $6, $7, $8)
 ORDER BY subscriber_id, global_sequence
 LIMIT $9
