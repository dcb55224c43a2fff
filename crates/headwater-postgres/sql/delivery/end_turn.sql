-- headwater.end_turn(namespace_id, subscriber_id, term, partition)
-- Records that the owner stops handling events for now, only in its term. Returns 1 if the caller
-- was the owner.
-- Raises: WH001, WH015. Locks, writes: the subscriber's row.
CREATE OR REPLACE FUNCTION headwater.end_turn(
    namespace_id int, subscriber_id text, term bigint, partition int, caller headwater.caller DEFAULT current_user
) RETURNS SETOF int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    UPDATE headwater_private.subscribers s SET handling = false, begun_event = NULL, begun_times = 0
     WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $4 AND ($3 IS NULL OR s.term = $3)
    RETURNING 1;
END
$$;
