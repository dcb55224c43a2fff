-- Moves a subscriber.
SELECT headwater.reset_subscriber($1, $2, $3)
