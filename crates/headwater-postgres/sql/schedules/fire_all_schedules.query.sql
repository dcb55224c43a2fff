-- Appends the due events of the schedules of all namespaces.
SELECT fired, extract(epoch FROM next_due_in)::float8 AS next_due_in, failed FROM headwater.fire_all_schedules($1)
