-- headwater.begin_event(namespace_id, subscriber_id, term, partition, event_id)
-- Records that the owner begins an event, only in its term. Returns how many times the event was
-- begun, this time included.
-- Raises: WH001, WH015. Locks, writes: the subscriber's row.
CREATE OR REPLACE FUNCTION headwater.begin_event(
    namespace_id int, subscriber_id text, term bigint, partition int, event_id uuid, caller headwater.caller DEFAULT current_user
) RETURNS SETOF int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    UPDATE headwater_private.subscribers s
       SET begun_times = CASE WHEN s.begun_event = $5 THEN s.begun_times + 1 ELSE 1 END, begun_event = $5
     WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $4 AND ($3 IS NULL OR s.term = $3)
    RETURNING s.begun_times;
END
$$;
