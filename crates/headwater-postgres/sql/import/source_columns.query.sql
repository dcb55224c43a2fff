-- Lists the columns of a table to import from, with their types. No rows: there is no such table.
-- `followable`: a trigger of the table fires for each new row.
SELECT c.oid::regclass::text AS table_name, a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type,
       greatest(c.reltuples, 0)::bigint AS estimate, quote_ident(n.nspname) AS schema_name,
       c.relkind = 'p' OR c.relkind = 'r' AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid) AS followable
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.oid = to_regclass($1)
 ORDER BY a.attnum
