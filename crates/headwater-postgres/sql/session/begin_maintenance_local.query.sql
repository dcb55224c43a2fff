-- The same as begin_maintenance for one transaction, where a pooler gives the session to other
-- clients afterwards.
SET LOCAL lock_timeout = '500ms'
