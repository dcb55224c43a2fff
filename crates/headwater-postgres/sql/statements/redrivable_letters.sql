-- Dead letters to deliver again now.
SELECT subscriber_id, event, order_key, state, parks_key, attempts, created_at, updated_at, reason
  FROM headwater.redrivable_letters($1, $2, $3)
 ORDER BY global_sequence
