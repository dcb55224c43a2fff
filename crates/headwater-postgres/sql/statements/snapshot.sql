-- Which transactions have ended, in a history only: lowest that has not, next to be given out, those under way in between.
SELECT pg_catalog.pg_current_snapshot()::text WHERE headwater.require_history($1)
