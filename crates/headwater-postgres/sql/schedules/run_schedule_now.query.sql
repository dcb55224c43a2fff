-- Appends a schedule's event at once, and wakes nobody.
SELECT headwater.run_schedule_now($1, $2, $3, false)
