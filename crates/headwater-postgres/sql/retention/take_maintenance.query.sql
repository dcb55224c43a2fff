-- Returns whether this process may maintain the months of a namespace. Others wait until it is
-- done, or for five minutes.
SELECT headwater.begin_maintenance($1, '5 minutes')
