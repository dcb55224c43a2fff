-- Deletes some of the rows that dropped namespaces left behind.
SELECT headwater.purge_dropped()
