-- Cancels an event that is not due yet.
SELECT headwater.cancel_due($1, $2)
