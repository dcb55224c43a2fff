-- Moves active subscribers back to just before poison, once.
SELECT r.subscriber_id, r.partition, r.was_at, r.stands_at FROM headwater.reset_on_poison($1, $2) r
