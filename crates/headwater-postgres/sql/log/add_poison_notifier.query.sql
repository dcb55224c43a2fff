-- Registers a kind of notifier.
SELECT headwater.add_poison_notifier($1, $2)
