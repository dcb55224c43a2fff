-- Sets which event types a queue takes. Returns what it took before. NULL: all types.
SELECT headwater.set_event_types($1, $2, $3)
