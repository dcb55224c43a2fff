-- headwater.apply_grants(only_role)
-- Lets roles that have grants call the entry points, and takes that back from roles that have none;
-- for one role, or for all that have grants (NULL). The entry points themselves check the namespace
-- and the kind of grant. PUBLIC gets nothing. `migrate` calls this whenever functions are replaced,
-- so that roles with grants may call new ones.
-- Raises: WH015 for others than the owner. Locks: nothing. Writes: privileges.
CREATE OR REPLACE FUNCTION headwater.apply_grants(only_role regrole DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    who regrole;
BEGIN
    PERFORM headwater_private.require_owner(caller);
    IF only_role IS NULL THEN
        REVOKE ALL ON ALL FUNCTIONS IN SCHEMA headwater, headwater_private FROM PUBLIC;
    END IF;
    FOR who IN SELECT only_role WHERE only_role IS NOT NULL
                   UNION SELECT g.role FROM headwater_private.grants g JOIN pg_catalog.pg_roles r ON r.oid = g.role WHERE only_role IS NULL LOOP
        IF EXISTS (SELECT FROM headwater_private.grants g WHERE g.role = who) THEN
            -- A GRANT rewrites the row of every function, even if the role has the privilege
            -- already. An old snapshot does not show what others have revoked: then grant in any
            -- case.
            CONTINUE WHEN current_setting('transaction_isolation') = 'read committed' AND NOT EXISTS (
                SELECT 1 FROM pg_proc p
                 WHERE p.pronamespace = 'headwater'::regnamespace
                   AND NOT EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = who AND a.privilege_type = 'EXECUTE')
                UNION ALL
                SELECT 1 FROM pg_class c
                 WHERE c.relnamespace = 'headwater'::regnamespace AND c.relkind IN ('r', 'p', 'v')
                   AND NOT EXISTS (SELECT FROM aclexplode(c.relacl) a WHERE a.grantee = who AND a.privilege_type = 'SELECT')
                UNION ALL
                SELECT 1 FROM pg_namespace n
                 WHERE n.nspname = 'headwater'
                   AND NOT EXISTS (SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee = who AND a.privilege_type = 'USAGE'));
            EXECUTE format('GRANT USAGE ON SCHEMA headwater TO %s', who);
            EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA headwater TO %s', who);
            -- The views, and the tables of migrations: clients ask which version the database has.
            EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA headwater TO %s', who);
        ELSE
            EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA headwater FROM %s', who);
            EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA headwater FROM %s', who);
            EXECUTE format('REVOKE ALL ON SCHEMA headwater FROM %s', who);
        END IF;
    END LOOP;
END
$$;
