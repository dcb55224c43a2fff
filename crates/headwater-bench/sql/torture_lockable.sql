-- The tables of Headwater.
SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname IN ('headwater', 'headwater_private') AND c.relkind IN ('r', 'p') ORDER BY 1
