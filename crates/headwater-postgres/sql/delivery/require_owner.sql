-- headwater_private.require_owner(caller)
-- Refuses everybody but the owner of Headwater's tables, and superusers.
-- Raises: WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.require_owner(caller name)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_has_role(caller, current_user, 'USAGE') IS NOT TRUE THEN
        PERFORM headwater_private.fail('WH015', format('role %L does not own Headwater''s tables', caller),
            jsonb_build_object('role', caller, 'kind', 'owner'), 'do this as the role that migrated, or as a superuser');
    END IF;
END
$$;
