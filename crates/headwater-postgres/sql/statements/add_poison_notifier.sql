-- Makes a kind of notifier known.
SELECT headwater.add_poison_notifier($1, $2)
