-- headwater_private.granted_to(caller, kind)
-- Lists the namespaces in which a caller was granted a kind, or admin, which includes all kinds;
-- NULL: any kind. The owner gets all namespaces.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.granted_to(caller name, kind text)
RETURNS int[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_has_role(caller, current_user, 'USAGE') THEN
        RETURN ARRAY(SELECT n.namespace_id FROM headwater_private.namespaces n);
    END IF;
    RETURN ARRAY(SELECT DISTINCT g.namespace_id FROM headwater_private.grants g
                  WHERE pg_has_role(granted_to.caller, g.role::oid, 'USAGE') AND (granted_to.kind IS NULL OR g.kind IN (granted_to.kind, 'admin')));
END
$$;
