-- A node says that it lives, and what it handles. Nobody waits for the disk: the next heartbeat says the same.
SELECT set_config('synchronous_commit', 'off', true), headwater.heartbeat($1, $2, $3, $4)
