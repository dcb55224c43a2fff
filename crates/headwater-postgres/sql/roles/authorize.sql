-- headwater_private.authorize(namespace_id, caller, kind)
-- headwater_private.open_namespace for entry points that get the number of a namespace. Returns
-- true or raises an error: as a condition, it is evaluated without a statement of its own.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.authorize(namespace_id int, caller name, kind text)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_has_role(caller, current_user, 'USAGE') IS NOT TRUE THEN
        IF NOT EXISTS (SELECT FROM headwater_private.grants g
                        WHERE g.namespace_id = authorize.namespace_id AND g.kind IN (authorize.kind, 'admin') AND authorize.kind <> 'owner'
                          AND pg_has_role(authorize.caller, g.role::oid, 'USAGE')) THEN
            PERFORM headwater_private.check_granted(authorize.namespace_id, coalesce(authorize.namespace_id::text, 'NULL'), caller, kind);
        END IF;
    END IF;
    RETURN true;
END
$$;
