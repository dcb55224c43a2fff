-- headwater.grant_role(namespace, role, kind)
-- Public: in docs/sql.md.
-- Lets a role of the database work in a namespace. Only the owner of Headwater's tables, and superusers, can.
--   producer   appends: emit, append, emit_at, cancel_due. Reads nothing but what its own transaction wrote, and the versions of streams
--   consumer   reads the log, and does all that subscribers do: leases, checkpoints, claims, dead letters, states
--   admin      both, and changes the settings of the namespace
-- Asked a second time, it does nothing.
-- Raises: WH001, WH002 (no such role or kind), 42501. Locks: one advisory lock against others who grant. Writes: grants, privileges.
CREATE OR REPLACE FUNCTION headwater.grant_role(namespace text, role text, kind text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ns      headwater.namespaces := headwater.namespace_row(grant_role.namespace);
    grantee regrole := headwater.check_grant(grant_role.role, grant_role.kind);
BEGIN
    -- 0x48570004: Headwater's class of locks on the list of grants
    PERFORM pg_advisory_xact_lock(1213661188, 0);
    INSERT INTO headwater.grants (namespace_id, role, kind) VALUES (ns.namespace_id, grantee, grant_role.kind) ON CONFLICT DO NOTHING;
    PERFORM headwater.apply_grants(grantee);
END
$$;
