-- headwater.granted(kind)
-- The namespaces in which the current user has grants of a kind, or an admin's, which holds them all; NULL: of any kind. It runs as its
-- caller, who sees in headwater.grants those of its own roles only: policies rest on it, and ask it once a statement. In plpgsql, which keeps the plan.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.granted(kind text) RETURNS int[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT array_agg(g.namespace_id) FROM headwater.grants g
                      WHERE pg_has_role(g.role::oid, 'USAGE') AND (granted.kind IS NULL OR g.kind IN (granted.kind, 'admin'))), '{}');
END
$$;
