-- Returns which transactions have ended, if the server is in the given history: the lowest id that
-- is still running, the next id to be handed out, and the running ids in between.
SELECT pg_catalog.pg_current_snapshot()::text WHERE headwater.require_history($1)
