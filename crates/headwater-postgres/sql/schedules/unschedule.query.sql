-- Removes a schedule.
SELECT headwater.unschedule($1, $2)
