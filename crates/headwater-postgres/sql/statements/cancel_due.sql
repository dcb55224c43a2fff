-- Takes back an event that waits to be due.
SELECT headwater.cancel_due($1, $2)
