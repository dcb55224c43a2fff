-- headwater.import_verified(namespace_id, name)
-- Records that an import was found to be complete.
-- Raises: WH001, WH015. Locks, writes: the import.
CREATE OR REPLACE FUNCTION headwater.import_verified(
    namespace_id int, name text, caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    UPDATE headwater_private.imports i SET verified_at = clock_timestamp() WHERE i.namespace_id = $1 AND i.name = $2;
END
$$;
