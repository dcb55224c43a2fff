-- Records that a notifier has reported poison.
SELECT headwater.poison_told($1, $2, $3)
