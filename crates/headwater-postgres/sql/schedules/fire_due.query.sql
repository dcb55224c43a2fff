-- Appends the due events of a namespace.
SELECT fired, extract(epoch FROM next_due_in)::float8 AS next_due_in, failed FROM headwater.fire_due($1, $2, $3)
