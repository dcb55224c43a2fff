-- The same for one transaction, where a pooler gives the session to others afterwards.
SET LOCAL lock_timeout = '500ms'
