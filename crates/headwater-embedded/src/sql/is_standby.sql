SELECT 1 WHERE pg_is_in_recovery()
