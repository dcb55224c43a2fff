-- Headwater's schema as text, the same on every PostgreSQL version: one line a table, view, type, sequence, column, constraint, index and function.
SET search_path = pg_catalog;
SELECT line FROM (
    SELECT 1 AS part, c.relname::text AS name, 0 AS nth,
           format('%s %s%s', CASE c.relkind WHEN 'p' THEN 'partitioned table' WHEN 'S' THEN 'sequence' WHEN 'c' THEN 'type' WHEN 'v' THEN 'view' ELSE 'table' END, c.relname,
                  coalesce(' with ' || array_to_string(c.reloptions, ', '), '')) AS line
      FROM pg_class c WHERE c.relnamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace) AND c.relkind IN ('r', 'p', 'S', 'c', 'v')
    UNION ALL
    SELECT 1, c.relname::text, a.attnum,
           format('    %s %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
                  CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
                  coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''))
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE c.relnamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace) AND c.relkind IN ('r', 'p', 'c', 'v')
    UNION ALL
    SELECT 1, c.relname::text, 1000 + row_number() OVER (ORDER BY k.contype, k.conname)::int,
           format('    %s', pg_get_constraintdef(k.oid))
      FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
     -- Servers from 18 on list NOT NULL here too.
     WHERE c.relnamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace) AND k.contype <> 'n'
    UNION ALL
    SELECT 1, i.tablename::text, 2000, format('    %s', i.indexdef) FROM pg_indexes i WHERE i.schemaname IN ('headwater', 'headwater_private')
    UNION ALL
    SELECT 2, p.proname::text, 0,
           format('function %s.%s(%s) returns %s, %s, body %s', p.pronamespace::regnamespace, p.proname, pg_get_function_identity_arguments(p.oid),
                  pg_get_function_result(p.oid),
                  CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END, left(md5(p.prosrc), 12))
      FROM pg_proc p WHERE p.pronamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace)
) AS described
ORDER BY part, name COLLATE "C", nth, line COLLATE "C"
