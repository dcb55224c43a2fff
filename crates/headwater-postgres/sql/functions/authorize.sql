-- headwater_private.authorize(namespace_id, caller, kind)
-- headwater_private.open_namespace for entry points that are told a namespace by its number. True, or an error.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.authorize(namespace_id int, caller name, kind text)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_has_role(caller, current_user, 'USAGE') IS NOT TRUE THEN
        PERFORM headwater_private.check_granted(authorize.namespace_id, coalesce(authorize.namespace_id::text, 'NULL'), caller, kind);
    END IF;
    RETURN true;
END
$$;
