-- Pauses a subscriber.
SELECT headwater.pause_subscriber($1, $2)
