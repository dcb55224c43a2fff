-- A node reports that it lives, which event types it has, and, if $5 is given, which of them it has
-- handlers for. Nobody waits for the disk: the next heartbeat says the same.
SELECT pg_catalog.set_config('synchronous_commit', 'off', true), headwater.heartbeat($1, $2, $3, $4),
       CASE WHEN $5::text[] IS NOT NULL THEN headwater.note_handled($1, $2, $3, $5) END
