-- Creates a subscriber, if it does not exist.
SELECT headwater.register_subscriber($1, $2, $3, $4, $5, $6, $7, $8)
