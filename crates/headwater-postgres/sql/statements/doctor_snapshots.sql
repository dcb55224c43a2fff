-- Who keeps vacuum from removing what is dead, for longer than so many seconds: sessions, prepared transactions.
SELECT CASE WHEN a.state LIKE 'idle in transaction%' THEN 'idle' ELSE 'busy' END AS kind, a.pid, coalesce(a.application_name, '') AS name,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds
  FROM pg_stat_activity a
 WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
   AND clock_timestamp() - a.xact_start >= pg_catalog.make_interval(secs => $1)
 UNION ALL
SELECT 'prepared', NULL, p.gid, extract(epoch FROM clock_timestamp() - p.prepared)::float8
  FROM pg_prepared_xacts p
 WHERE clock_timestamp() - p.prepared >= pg_catalog.make_interval(secs => $1)
 ORDER BY seconds DESC
 LIMIT 100
