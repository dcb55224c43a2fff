-- Wakes the sessions that fire due events of a namespace. As with wake, nobody waits for the disk.
SELECT pg_catalog.set_config('synchronous_commit', 'off', true), headwater.wake_due($1)
