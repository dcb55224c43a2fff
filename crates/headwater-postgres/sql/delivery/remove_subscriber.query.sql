-- Removes a subscriber.
SELECT headwater.remove_subscriber($1, $2, $3)
