-- Lists poison that a notifier has not reported yet.
SELECT headwater.poison_to_tell($1, $2, $3)
