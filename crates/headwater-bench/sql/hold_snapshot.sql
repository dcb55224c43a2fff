-- From here on, no row that dies can be removed.
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class
