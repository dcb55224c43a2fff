-- headwater.import_follow(namespace_id, name, new_token)
-- Returns how far an import has followed its table. With a token, the import begins to follow, if
-- it does not yet: the token names what is created in the source. An import that follows already
-- keeps its own token.
-- Raises: WH001, WH015. Locks, writes: the import.
CREATE OR REPLACE FUNCTION headwater.import_follow(
    namespace_id int, name text, new_token text DEFAULT NULL, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (state text, token text, batch bigint, cursor text[], notes bigint[], events bigint, followed_events bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    UPDATE headwater_private.imports i SET follow_state = 'preparing', follow_token = $3, updated_at = clock_timestamp()
     WHERE i.namespace_id = $1 AND i.name = $2 AND i.follow_state IS NULL AND $3 IS NOT NULL;
    RETURN QUERY
    SELECT i.follow_state, i.follow_token, i.follow_batch, i.cursor, i.follow_notes, i.events, i.followed_events
      FROM headwater_private.imports i WHERE i.namespace_id = $1 AND i.name = $2;
END
$$;
