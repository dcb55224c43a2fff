-- Returns whether one of these transactions ($1) still holds a lock.
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.virtualtransaction = ANY ($1) AND l.locktype = 'relation' AND l.mode = 'RowExclusiveLock') AS open
