-- Appends the due events of a namespace's schedules.
SELECT fired, extract(epoch FROM next_due_in)::float8 AS next_due_in, failed FROM headwater.fire_schedules($1, $2, $3)
