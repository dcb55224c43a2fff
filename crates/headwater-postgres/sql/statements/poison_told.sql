-- Notes that a notifier was told of poison.
SELECT headwater.poison_told($1, $2, $3)
