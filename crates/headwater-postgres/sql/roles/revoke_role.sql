-- headwater.revoke_role(namespace, role, kind)
-- Public: in docs/sql.md.
-- Takes a grant back, or all grants that a role has in a namespace (kind NULL). Returns how many
-- grants were taken back. Only the owner of Headwater's tables and superusers can call it. It waits
-- for nothing that the role can hold. A call of the role that has begun is finished, or refused as
-- a whole: entry points ask for the grant before they do anything. The next call is refused.
-- Raises: WH001, WH002 (no such role or kind), 42501. Locks: the table of grants, against others
-- who grant. Writes: grants, privileges.
CREATE OR REPLACE FUNCTION headwater.revoke_role(namespace text, role text, kind text DEFAULT NULL, caller headwater.caller DEFAULT current_user) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(revoke_role.namespace, caller, 'owner');
    grantee regrole := headwater_private.check_grant(revoke_role.role, coalesce(revoke_role.kind, 'admin'));
    revoked bigint;
BEGIN
    LOCK TABLE headwater_private.grants IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM headwater_private.grants g
     WHERE g.namespace_id = ns.namespace_id AND g.role = grantee AND (revoke_role.kind IS NULL OR g.kind = revoke_role.kind);
    GET DIAGNOSTICS revoked = ROW_COUNT;
    PERFORM headwater.apply_grants(grantee);
    RETURN revoked;
END
$$;
