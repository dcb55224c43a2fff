-- Takes the session lock of those who follow a table by these notes, if nobody has it. It only
-- keeps a second one from starting: what is imported is decided in the target.
SELECT pg_try_advisory_lock($1) AS locked
