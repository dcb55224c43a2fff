-- headwater.end_maintenance(namespace_id)
-- Ends the lease of headwater.begin_maintenance.
-- Raises: WH001. Locks, writes: the lease.
CREATE OR REPLACE FUNCTION headwater.end_maintenance(namespace_id int, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, NULL);
    UPDATE headwater_private.latches l SET held_until = NULL
     WHERE l.namespace_id = $1
       AND l.what = CASE WHEN pg_has_role(caller, current_user, 'USAGE') THEN 'maintenance' ELSE 'maintenance by a granted role' END;
END
$$;
