-- Begins a transaction whose statements all read one snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY
