-- Whoever maintains waits for nobody for long: a lock that is not had in time is tried for again.
SET lock_timeout = '500ms'
