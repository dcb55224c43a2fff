-- Wakes the readers of a namespace. A wake-up may be lost, so nobody waits for the disk. This is a
-- transaction of its own.
SELECT pg_catalog.set_config('synchronous_commit', 'off', true), headwater.wake($1)
