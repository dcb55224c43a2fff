-- Lists the open transactions that have written to a table ($1), or to a partition of it, oldest
-- first.
SELECT l.virtualtransaction AS writer, coalesce(l.pid, 0) AS pid, coalesce(extract(epoch FROM clock_timestamp() - min(a.xact_start)), 0)::bigint AS seconds
  FROM pg_catalog.pg_locks l
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
   AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
   AND l.relation IN (SELECT to_regclass($1)::oid UNION ALL SELECT t.relid::oid FROM pg_catalog.pg_partition_tree(to_regclass($1)) t)
 GROUP BY l.virtualtransaction, l.pid
 ORDER BY 3 DESC
