-- headwater.grant_role(namespace, role, kind)
-- Public: in docs/sql.md.
-- Lets a role of the database work in a namespace. Only the owner of Headwater's tables and
-- superusers can call it.
--   producer   appends: emit, append, emit_at, cancel_due. It reads only what its own transaction
--              wrote, and the versions of streams.
--   consumer   reads the log, and does everything that subscribers do: leases, checkpoints, claims,
--              dead letters, states.
--   admin      does both, and changes the settings of the namespace.
-- A second call with the same arguments does nothing.
-- Raises: WH001, WH002 (no such role or kind), 42501. Locks: the table of grants, against others
-- who grant. Writes: grants, privileges.
CREATE OR REPLACE FUNCTION headwater.grant_role(namespace text, role text, kind text, caller headwater.caller DEFAULT current_user) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(grant_role.namespace, caller, 'owner');
    grantee regrole := headwater_private.check_grant(grant_role.role, grant_role.kind);
BEGIN
    LOCK TABLE headwater_private.grants IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO headwater_private.grants (namespace_id, role, kind) VALUES (ns.namespace_id, grantee, grant_role.kind) ON CONFLICT DO NOTHING;
    PERFORM headwater.apply_grants(grantee);
END
$$;
