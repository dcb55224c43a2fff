-- headwater.revoke_role(namespace, role, kind)
-- Public: in docs/sql.md.
-- Takes a grant back, or all that a role has in a namespace (kind NULL). Answers how many it had. Only the owner of Headwater's tables, and superusers, can.
-- Claims of the namespace's queues that are being made are waited for, so that none sees half of the log.
-- Raises: WH001, WH002 (no such role or kind), 42501. Locks: one advisory lock against others who grant; the queues. Writes: grants, privileges.
CREATE OR REPLACE FUNCTION headwater.revoke_role(namespace text, role text, kind text DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    ns      headwater.namespaces := headwater.namespace_row(revoke_role.namespace);
    grantee regrole := headwater.check_grant(revoke_role.role, coalesce(revoke_role.kind, 'admin'));
    revoked bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1213661188, 0);
    PERFORM headwater.lock_queue(ns.namespace_id, q.subscriber_id)
       FROM (SELECT s.subscriber_id FROM headwater.subscribers s
              WHERE s.namespace_id = ns.namespace_id AND s.mode = 'shared' ORDER BY s.subscriber_id) q;
    DELETE FROM headwater.grants g
     WHERE g.namespace_id = ns.namespace_id AND g.role = grantee AND (revoke_role.kind IS NULL OR g.kind = revoke_role.kind);
    GET DIAGNOSTICS revoked = ROW_COUNT;
    PERFORM headwater.apply_grants(grantee);
    RETURN revoked;
END
$$;
