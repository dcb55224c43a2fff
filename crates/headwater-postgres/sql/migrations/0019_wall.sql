-- The wall: tables, types and internal functions go into a schema of their own, which roles with grants cannot use. What they call are functions
-- of the schema `headwater`, which run as its owner, pin their search_path and ask who calls. Row-level security goes: nobody but the owner
-- reaches a table. The tables of migrations stay, so that an older build sees that the database is newer.
-- Frozen once shipped.

CREATE SCHEMA headwater_private;

-- Who calls. An entry point has a last parameter of this type, whose default is current_user. Values of a domain are checked where they are
-- made, that is in the caller's statement and as the caller, before the entry point runs as its owner: so nobody can give another's name. After
-- SET ROLE it is that role; in somebody's SECURITY DEFINER function it is that function's owner. Nobody may store it or declare variables of it.
CREATE DOMAIN headwater.caller AS name CHECK (VALUE = current_user);
REVOKE ALL ON DOMAIN headwater.caller FROM PUBLIC;

DO $$
DECLARE
    thing record;
    who   text;
BEGIN
    FOR thing IN SELECT c.oid::regclass AS name FROM pg_catalog.pg_class c
                  WHERE c.relnamespace = 'headwater'::regnamespace AND c.relkind = 'v' LOOP
        EXECUTE format('DROP VIEW %s', thing.name);
    END LOOP;
    FOR thing IN SELECT p.polname AS policy, p.polrelid::regclass AS name FROM pg_catalog.pg_policy p
                   JOIN pg_catalog.pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = 'headwater'::regnamespace LOOP
        EXECUTE format('DROP POLICY %I ON %s', thing.policy, thing.name);
    END LOOP;
    FOR who IN SELECT r.rolname FROM pg_catalog.pg_roles r WHERE r.oid IN (SELECT g.role FROM headwater.grants g) LOOP
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA headwater FROM %I', who);
        EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA headwater FROM %I', who);
    END LOOP;
    DROP TABLE headwater.rights;
    FOR thing IN SELECT c.oid::regclass AS name, c.relkind, c.relrowsecurity FROM pg_catalog.pg_class c
                  WHERE c.relnamespace = 'headwater'::regnamespace AND c.relkind IN ('r', 'p', 'S', 'c')
                    AND c.relname NOT IN ('migrations', 'functions_revision')
                    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE c.relkind = 'S' AND d.classid = 'pg_class'::regclass
                                                                         AND d.objid = c.oid AND d.deptype IN ('a', 'i')) LOOP
        IF thing.relrowsecurity THEN
            EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', thing.name);
        END IF;
        EXECUTE format('ALTER %s %s SET SCHEMA headwater_private',
                       CASE thing.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END, thing.name);
    END LOOP;
    -- Those of triggers go with their tables; all others are made anew.
    FOR thing IN SELECT p.oid::regprocedure AS name, p.prorettype = 'trigger'::regtype AS is_trigger FROM pg_catalog.pg_proc p
                  WHERE p.pronamespace = 'headwater'::regnamespace LOOP
        EXECUTE format(CASE WHEN thing.is_trigger THEN 'ALTER FUNCTION %s SET SCHEMA headwater_private' ELSE 'DROP FUNCTION %s' END, thing.name);
    END LOOP;
    -- pg_partman knows its tables by name.
    FOR thing IN SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
                  WHERE e.extname = 'pg_partman' LOOP
        EXECUTE format('UPDATE %I.part_config SET parent_table = replace(parent_table, ''headwater.'', ''headwater_private.''),
                               template_table = replace(template_table, ''headwater.'', ''headwater_private.'')
                         WHERE parent_table LIKE ''headwater.%%''', thing.nspname);
    END LOOP;
END
$$;

-- Rows that are locked, for what one transaction at a time may do. Advisory locks would be open to everybody who can connect.
CREATE TABLE headwater_private.latches (
    -- 0: of all namespaces
    namespace_id int NOT NULL,
    what         text COLLATE "C" NOT NULL,
    -- of what takes more than a transaction
    held_until   timestamptz,
    PRIMARY KEY (namespace_id, what)
);
