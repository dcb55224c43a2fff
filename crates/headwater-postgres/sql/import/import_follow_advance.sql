-- headwater.import_follow_advance(namespace_id, name, token, from_batch, to_cursor, notes, events,
-- first_sequence, last_sequence)
-- Moves an import that follows its table on by one batch, in the transaction that appends the
-- batch's events: from the batch that it is known to be at, or not at all. A batch of rows that are
-- older than the trigger moves the cursor. Any other batch (to_cursor NULL) has the notes of its
-- rows.
-- Raises: WH001, WH015. Locks, writes: the import.
CREATE OR REPLACE FUNCTION headwater.import_follow_advance(
    namespace_id int, name text, token text, from_batch bigint, to_cursor text[], notes bigint[], events bigint, first_sequence bigint,
    last_sequence bigint, caller headwater.caller DEFAULT current_user
) RETURNS SETOF int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    RETURN QUERY
    UPDATE headwater_private.imports i
       SET follow_batch = i.follow_batch + 1, cursor = coalesce($5, i.cursor), follow_notes = coalesce($6, '{}'), events = i.events + $7,
           followed_events = i.followed_events + CASE WHEN $5 IS NULL THEN $7 ELSE 0 END,
           first_sequence = least(i.first_sequence, $8), last_sequence = greatest(i.last_sequence, $9), updated_at = clock_timestamp(), verified_at = NULL
     WHERE i.namespace_id = $1 AND i.name = $2 AND i.follow_token = $3 AND i.follow_batch = $4
    RETURNING 1;
END
$$;
