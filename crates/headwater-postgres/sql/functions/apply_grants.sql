-- headwater.apply_grants(only_role)
-- Gives roles the privileges on tables, sequences and functions that their grants need, and takes all others back; of one role, or (NULL) of all that have
-- grants. Nothing is for PUBLIC. `migrate` calls it whenever functions are replaced, so that new ones are for those who may call them.
-- A table with a namespace_id that has no policy yet gets one for admins: what nobody thought of is not open.
-- Raises: WH015 for others than the owner. Locks: such a table. Writes: privileges.
CREATE OR REPLACE FUNCTION headwater.apply_grants(only_role regrole DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    schema constant oid := 'headwater'::regnamespace;
    who     regrole;
    had     record;
    other   regclass;
    produces boolean;
    consumes boolean;
    manages  boolean;
    others  text;
    all_of  constant text := 'SELECT, INSERT, UPDATE, DELETE';
BEGIN
    -- PostgreSQL would only warn.
    IF NOT (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_catalog.pg_class c WHERE c.oid = 'headwater.grants'::regclass) THEN
        PERFORM headwater.fail('WH015', format('role %L does not own Headwater''s tables', current_user),
            jsonb_build_object('role', current_user, 'kind', 'owner'), 'grant and revoke as the role that migrated, or as a superuser');
    END IF;
    IF only_role IS NULL THEN
        REVOKE ALL ON ALL FUNCTIONS IN SCHEMA headwater FROM PUBLIC;
    END IF;
    FOR other IN SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace_id'
                  WHERE c.relnamespace = schema AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT c.relrowsecurity LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', other);
        EXECUTE format('CREATE POLICY admins ON %s USING (namespace_id = ANY ((SELECT headwater.granted(''admin''))::int[]))', other);
    END LOOP;
    SELECT string_agg(c.oid::regclass::text, ', ') INTO others
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_policy p ON p.polrelid = c.oid AND p.polname = 'admins' AND p.polcmd = '*'
     WHERE c.relnamespace = schema AND c.relkind IN ('r', 'p');

    FOR who IN SELECT only_role WHERE only_role IS NOT NULL
                   UNION SELECT g.role FROM headwater.grants g JOIN pg_catalog.pg_roles r ON r.oid = g.role WHERE only_role IS NULL LOOP
        FOR had IN SELECT DISTINCT c.oid::regclass AS object, CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS type
                     FROM pg_catalog.pg_class c, aclexplode(c.relacl) acl
                    WHERE c.relnamespace = schema AND acl.grantee = who
                   UNION
                   SELECT DISTINCT c.oid::regclass, 'TABLE'
                     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid, aclexplode(a.attacl) acl
                    WHERE c.relnamespace = schema AND acl.grantee = who LOOP
            EXECUTE format('REVOKE ALL ON %s %s FROM %s', had.type, had.object, who);
        END LOOP;
        SELECT bool_or(g.kind IN ('producer', 'admin')), bool_or(g.kind IN ('consumer', 'admin')), bool_or(g.kind = 'admin')
          INTO produces, consumes, manages FROM headwater.grants g WHERE g.role = who;
        IF produces IS NULL THEN
            EXECUTE format('REVOKE ALL ON SCHEMA headwater FROM %s', who);
            EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA headwater FROM %s', who);
            CONTINUE;
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA headwater TO %s', who);
        EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA headwater TO %s', who);
        EXECUTE format('GRANT SELECT ON headwater.migrations, headwater.functions_revision, headwater.grants, headwater.namespaces,
                        headwater.counters, headwater.events, headwater.months TO %s', who);
        EXECUTE format('GRANT %s ON headwater.nodes TO %s', all_of, who);
        EXECUTE format('GRANT USAGE ON SEQUENCE headwater.incarnations TO %s', who);
        FOR other IN SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relnamespace = schema AND c.relkind = 'v' LOOP
            EXECUTE format('GRANT SELECT ON %s TO %s', other, who);
        END LOOP;
        -- Whoever looks for due events that are not its own finds none.
        EXECUTE format('GRANT SELECT, UPDATE, DELETE ON headwater.due_events TO %s', who);
        EXECUTE format('GRANT %s ON headwater.schedules, headwater.schedule_runs TO %s', all_of, who);
        IF produces THEN
            EXECUTE format('GRANT INSERT ON headwater.events, headwater.due_events, headwater.rights TO %s', who);
            EXECUTE format('GRANT %s ON headwater.streams TO %s', all_of, who);
            EXECUTE format('GRANT UPDATE (last_sequence) ON headwater.counters TO %s', who);
        END IF;
        IF consumes THEN
            EXECUTE format('GRANT %s ON headwater.subscribers, headwater.members, headwater.claims, headwater.retries, headwater.dead_letters,
                            headwater.states, headwater.settled_ahead, headwater.unhandled_types TO %s', all_of, who);
            EXECUTE format('GRANT SELECT ON headwater.losses, headwater.streams TO %s', who);
            EXECUTE format('GRANT SELECT, INSERT, UPDATE ON headwater.poison_events, headwater.cdc_slots TO %s', who);
            EXECUTE format('GRANT %s ON headwater.cdc_inbox, headwater.cdc_nodes TO %s', all_of, who);
            EXECUTE format('GRANT SELECT, INSERT ON headwater.permanent_gaps TO %s', who);
            EXECUTE format('GRANT USAGE ON SEQUENCE headwater.terms, headwater.claim_numbers TO %s', who);
        END IF;
        IF manages THEN
            EXECUTE format('GRANT UPDATE (notify, retention, max_payload_bytes, metadata) ON headwater.namespaces TO %s', who);
            IF others IS NOT NULL THEN
                EXECUTE format('GRANT %s ON %s TO %s', all_of, others, who);
            END IF;
        END IF;
        -- Each log's own sequence: to count on, or to look at.
        FOR had IN SELECT n.sequence AS object, bool_or(g.kind <> 'consumer') AS counts
                     FROM headwater.grants g JOIN headwater.namespaces n ON n.namespace_id = g.namespace_id
                    WHERE g.role = who AND n.sequence IS NOT NULL GROUP BY n.sequence LOOP
            EXECUTE format('GRANT %s ON SEQUENCE %s TO %s', CASE WHEN had.counts THEN 'USAGE, SELECT' ELSE 'SELECT' END, had.object, who);
        END LOOP;
    END LOOP;
END
$$;
