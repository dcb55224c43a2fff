-- headwater.role_grants(only_namespace)
-- Public: in docs/sql.md.
-- Lists the grants in a namespace, or in all namespaces (NULL). A caller that is not the owner sees
-- only grants of its own roles.
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.role_grants(only_namespace text DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, role text, kind text, granted_at timestamptz) LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF role_grants.only_namespace IS NOT NULL THEN
        PERFORM headwater_private.open_namespace(role_grants.only_namespace, caller, NULL);
    END IF;
    RETURN QUERY
    SELECT n.namespace, coalesce(r.rolname::text, g.role::text), g.kind, g.granted_at
      FROM headwater_private.grants g
      JOIN headwater_private.namespaces n ON n.namespace_id = g.namespace_id
      LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.role
     WHERE (role_grants.only_namespace IS NULL OR n.namespace = role_grants.only_namespace)
       AND (pg_has_role(caller, current_user, 'USAGE') OR pg_has_role(caller, g.role::oid, 'USAGE'))
     ORDER BY 1, 2, 3;
END
$$;
