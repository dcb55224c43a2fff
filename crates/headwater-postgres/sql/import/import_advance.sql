-- headwater.import_advance(namespace_id, name, from_cursor, to_cursor, events, first_sequence,
-- last_sequence)
-- Moves an import on, in the transaction that appends its events: from where it is known to be
-- ($3), or not at all. Only headwater.import_follow_advance moves an import that follows its table.
-- Raises: WH001, WH015. Locks, writes: the import.
CREATE OR REPLACE FUNCTION headwater.import_advance(
    namespace_id int, name text, from_cursor text[], to_cursor text[], events bigint, first_sequence bigint,
    last_sequence bigint, caller headwater.caller DEFAULT current_user
) RETURNS SETOF int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    RETURN QUERY
    UPDATE headwater_private.imports i
       SET cursor = $4, events = i.events + $5, first_sequence = least(i.first_sequence, $6), last_sequence = greatest(i.last_sequence, $7),
           updated_at = clock_timestamp(), verified_at = NULL
     WHERE i.namespace_id = $1 AND i.name = $2 AND i.cursor IS NOT DISTINCT FROM $3 AND i.follow_state IS NULL
    RETURNING 1;
END
$$;
