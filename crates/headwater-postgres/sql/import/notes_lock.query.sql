-- Takes the session lock for following a table by these notes, if nobody has it. It only keeps a
-- second process from starting: the target decides what is imported.
SELECT pg_try_advisory_lock($1) AS locked
