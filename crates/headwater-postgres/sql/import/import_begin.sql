-- headwater.import_begin(namespace_id, name, source)
-- Begins an import, or finds the one that was begun. `is_same`: that one has the same source.
-- Raises: WH001, WH015. Locks, writes: the import.
CREATE OR REPLACE FUNCTION headwater.import_begin(
    namespace_id int, name text, source jsonb, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (cursor text[], events bigint, is_same boolean) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    RETURN QUERY
    WITH made AS (
        INSERT INTO headwater_private.imports (namespace_id, name, source) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
        RETURNING cursor, events, true AS is_same
    )
    SELECT m.* FROM made m
    UNION ALL
    SELECT i.cursor, i.events, i.source = $3 FROM headwater_private.imports i WHERE i.namespace_id = $1 AND i.name = $2;
END
$$;
