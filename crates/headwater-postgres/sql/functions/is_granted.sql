-- headwater_private.is_granted(namespace_id, caller, kind)
-- Whether a role was granted `kind` in a namespace, or admin. For statements that ask this only of callers who are not the owner: a function of its own, so that
-- those who are do not open the table of grants.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.is_granted(namespace_id int, caller name, kind text)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM headwater_private.grants g
                    WHERE g.namespace_id = is_granted.namespace_id AND g.kind IN (is_granted.kind, 'admin')
                      AND pg_has_role(is_granted.caller, g.role::oid, 'USAGE'));
END
$$;
