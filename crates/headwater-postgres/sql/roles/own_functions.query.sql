-- Gives what a superuser has migrated to the owner of the schema: entry points run with the rights
-- of their owner.
DO $$
DECLARE
    thing record;
BEGIN
    FOR thing IN
        SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS type, c.oid::regclass::text AS name, n.nspowner::regrole AS owner
          FROM pg_class c JOIN pg_namespace n ON n.nspname = 'headwater'
         WHERE c.relnamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace) AND c.relkind IN ('r', 'p', 'S', 'v')
           AND c.relowner <> n.nspowner
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE c.relkind = 'S' AND d.classid = 'pg_class'::regclass AND d.objid = c.oid
                                                     AND d.deptype IN ('a', 'i'))
        UNION ALL
        SELECT 'FUNCTION', p.oid::regprocedure::text, n.nspowner::regrole
          FROM pg_proc p JOIN pg_namespace n ON n.nspname = 'headwater'
         WHERE p.pronamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace) AND p.proowner <> n.nspowner
        UNION ALL
        SELECT 'TYPE', t.oid::regtype::text, n.nspowner::regrole
          FROM pg_type t JOIN pg_namespace n ON n.nspname = 'headwater' LEFT JOIN pg_class c ON c.oid = t.typrelid
         WHERE t.typnamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace) AND t.typowner <> n.nspowner
           AND (t.typtype = 'd' OR c.relkind = 'c')
        UNION ALL
        SELECT 'SCHEMA', 'headwater_private', n.nspowner::regrole
          FROM pg_namespace n JOIN pg_namespace p ON p.nspname = 'headwater_private' AND p.nspowner <> n.nspowner
         WHERE n.nspname = 'headwater'
    LOOP
        EXECUTE pg_catalog.format('ALTER %s %s OWNER TO %s', thing.type, thing.name, thing.owner);
    END LOOP;
END
$$
