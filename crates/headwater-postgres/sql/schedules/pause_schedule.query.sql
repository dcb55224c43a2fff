-- Pauses a schedule.
SELECT headwater.pause_schedule($1, $2)
