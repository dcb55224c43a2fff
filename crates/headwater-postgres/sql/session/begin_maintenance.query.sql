-- Maintenance never waits long for anybody: a lock that it does not get in time is tried again
-- later.
SET lock_timeout = '500ms'
