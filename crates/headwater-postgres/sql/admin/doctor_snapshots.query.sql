-- Lists who keeps vacuum from removing dead rows: sessions and prepared transactions that have been
-- open for $1 seconds, and replication slots. Sessions whose age this role may not see, and slots,
-- are listed if they have held vacuum back for $2 transactions.
SELECT CASE WHEN a.state LIKE 'idle in transaction%' THEN 'idle' ELSE 'busy' END AS kind, a.pid, coalesce(a.application_name, '') AS name,
       r.rolname::text AS role, extract(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)::float8 AS seconds, pg_catalog.age(coalesce(a.backend_xmin, a.backend_xid)) AS transactions
  FROM pg_stat_activity a LEFT JOIN pg_roles r ON r.oid = a.usesysid
 WHERE coalesce(a.backend_type, 'client backend') = 'client backend' AND a.pid <> pg_catalog.pg_backend_pid()
   AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
   AND CASE WHEN a.xact_start IS NULL THEN pg_catalog.age(coalesce(a.backend_xmin, a.backend_xid)) >= $2
       ELSE pg_catalog.clock_timestamp() - a.xact_start >= pg_catalog.make_interval(secs => $1) END
 UNION ALL
SELECT 'prepared', NULL, p.gid, p.owner::text, extract(epoch FROM pg_catalog.clock_timestamp() - p.prepared)::float8, pg_catalog.age(p.transaction)
  FROM pg_prepared_xacts p
 WHERE pg_catalog.clock_timestamp() - p.prepared >= pg_catalog.make_interval(secs => $1)
 UNION ALL
SELECT 'slot', s.active_pid, s.slot_name::text, NULL, NULL, greatest(pg_catalog.age(s.xmin), pg_catalog.age(s.catalog_xmin))
  FROM pg_replication_slots s
 WHERE NOT s.temporary AND greatest(pg_catalog.age(s.xmin), pg_catalog.age(s.catalog_xmin)) >= $2
 ORDER BY seconds DESC NULLS LAST, transactions DESC
 LIMIT 100
