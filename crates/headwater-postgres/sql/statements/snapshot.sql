-- Which transactions have ended: lowest that has not, next to be given out, those under way in between.
SELECT pg_current_snapshot()::text
