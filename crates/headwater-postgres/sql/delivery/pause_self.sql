-- headwater.pause_self(namespace_id, subscriber_id, term, reason, partition)
-- Pauses a subscriber, only in its owner's term.
-- Raises: WH001, WH015. Locks, writes: the subscriber's row.
CREATE OR REPLACE FUNCTION headwater.pause_self(
    namespace_id int, subscriber_id text, term bigint, reason text, partition int,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    UPDATE headwater_private.subscribers
       SET paused = true, pause_reason = $4, report = jsonb_build_object('state', 'paused', 'detail', $4::text, 'rate', 0.0)
     WHERE namespace_id = $1 AND subscriber_id = $2 AND partition = $5 AND ($3::bigint IS NULL OR term = $3)
    RETURNING 1;
END
$$;
