-- headwater.role_grants(only_namespace)
-- Public: in docs/sql.md.
-- The grants in a namespace, or in all (NULL). Others than the owner see those of their own roles.
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.role_grants(only_namespace text DEFAULT NULL)
RETURNS TABLE (namespace text, role text, kind text, granted_at timestamptz) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF role_grants.only_namespace IS NOT NULL THEN
        PERFORM headwater.namespace_row(role_grants.only_namespace);
    END IF;
    RETURN QUERY
    SELECT n.namespace, coalesce(r.rolname::text, g.role::text), g.kind, g.granted_at
      FROM headwater.grants g
      JOIN headwater.namespaces n ON n.namespace_id = g.namespace_id
      LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.role
     WHERE role_grants.only_namespace IS NULL OR n.namespace = role_grants.only_namespace
     ORDER BY 1, 2, 3;
END
$$;
