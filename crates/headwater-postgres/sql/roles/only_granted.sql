-- headwater_private.only_granted(caller, kind)
-- headwater_private.granted_to for functions that report on many namespaces at once: NULL for the
-- owner, who may see all of them.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.only_granted(caller name, kind text)
RETURNS int[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN NOT pg_has_role(only_granted.caller, current_user, 'USAGE') THEN headwater_private.granted_to(only_granted.caller, only_granted.kind) END;
END
$$;
