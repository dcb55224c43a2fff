-- Has an event delivered that was poison and is repaired.
SELECT headwater.redeliver_poison($1, $2)
