-- headwater.import_range(namespace_id, name)
-- Returns where the events of an import lie.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.import_range(
    namespace_id int, name text, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (events bigint, first_sequence bigint, last_sequence bigint) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    RETURN QUERY
    SELECT i.events, coalesce(i.first_sequence, 0) AS first_sequence, coalesce(i.last_sequence, 0) AS last_sequence
      FROM headwater_private.imports i WHERE i.namespace_id = $1 AND i.name = $2;
END
$$;
