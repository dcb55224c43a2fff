-- Makes a subscriber, if it is not there.
SELECT headwater.register_subscriber($1, $2, $3, $4, $5, $6, $7)
