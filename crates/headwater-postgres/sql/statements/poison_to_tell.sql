-- Poison that a notifier was not told of yet.
SELECT headwater.poison_to_tell($1, $2, $3)
