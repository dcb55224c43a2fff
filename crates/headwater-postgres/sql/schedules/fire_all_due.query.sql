-- Appends the due events of all namespaces.
SELECT fired, extract(epoch FROM next_due_in)::float8 AS next_due_in, failed FROM headwater.fire_all_due($1)
