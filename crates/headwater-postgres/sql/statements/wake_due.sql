-- Wakes those who fire events of a namespace when they are due. As wake, nobody waits for the disk.
SELECT pg_catalog.set_config('synchronous_commit', 'off', true), headwater.wake_due($1)
