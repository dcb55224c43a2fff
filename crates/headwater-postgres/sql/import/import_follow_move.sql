-- headwater.import_follow_move(namespace_id, name, token, from_states, to_state)
-- Moves an import that follows its table to its next state, from one of the expected states, or not
-- at all. Returns whether it moved. If following ends before any row was imported by its note, the
-- import is as it was before (to_state NULL).
-- Raises: WH001, WH015. Locks, writes: the import.
CREATE OR REPLACE FUNCTION headwater.import_follow_move(
    namespace_id int, name text, token text, from_states text[], to_state text, caller headwater.caller DEFAULT current_user
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    UPDATE headwater_private.imports i
       SET follow_state = $5, updated_at = clock_timestamp(),
           follow_token = CASE WHEN $5 IS NULL OR $5 = 'ended' THEN NULL ELSE i.follow_token END,
           follow_notes = CASE WHEN $5 IS NULL OR $5 = 'ended' THEN '{}' ELSE i.follow_notes END
     WHERE i.namespace_id = $1 AND i.name = $2 AND i.follow_token = $3 AND i.follow_state = ANY ($4)
       AND ($5 IS NOT NULL OR i.followed_events = 0);
    RETURN FOUND;
END
$$;
