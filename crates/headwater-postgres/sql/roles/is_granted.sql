-- headwater_private.is_granted(namespace_id, caller, kind)
-- Returns whether a role was granted `kind` (NULL: anything) or admin in a namespace, or is the
-- owner. It is a single lookup: granted_to lists all namespaces for the owner.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.is_granted(namespace_id int, caller name, kind text)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN pg_has_role(is_granted.caller, current_user, 'USAGE')
           OR EXISTS (SELECT FROM headwater_private.grants g
                       WHERE g.namespace_id = is_granted.namespace_id AND (is_granted.kind IS NULL OR g.kind IN (is_granted.kind, 'admin'))
                         AND pg_has_role(is_granted.caller, g.role::oid, 'USAGE'));
END
$$;
