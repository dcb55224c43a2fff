-- What was run in this database, and how often, but for looks at the counters.
SELECT query, calls FROM pg_stat_statements
 WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query NOT ILIKE '%pg_stat_statements%'
 ORDER BY calls DESC
