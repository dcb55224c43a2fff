-- Whether this session is the one that maintains a namespace now. 0x48570003: Headwater's class of locks on maintenance.
SELECT pg_try_advisory_lock(1213661187, $1)
