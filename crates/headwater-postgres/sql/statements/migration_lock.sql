-- One migrates, the others wait. 0x48570000: Headwater's class of locks on its schema.
SELECT pg_advisory_xact_lock(1213661184, 0)
