-- headwater.log_page_back(namespace_id, before_sequence, from_sequence, max_events, event_types, stream, stream_prefix, from_at, until_at)
-- headwater.log_page backwards: from below before_sequence down to from_sequence.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.log_page_back(
    namespace_id int, before_sequence bigint, from_sequence bigint, max_events int,
    event_types text[], stream text, stream_prefix text, from_at timestamptz DEFAULT NULL, until_at timestamptz DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT headwater_private.authorize(log_page_back.namespace_id, caller, 'consumer') THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.* FROM headwater_private.events e
     WHERE e.namespace_id = log_page_back.namespace_id
       AND e.global_sequence < log_page_back.before_sequence
       AND e.global_sequence >= coalesce(log_page_back.from_sequence, 0)
       AND e.recorded_at >= coalesce(log_page_back.from_at, '-infinity') AND e.recorded_at < coalesce(log_page_back.until_at, 'infinity')
       AND (log_page_back.event_types IS NULL OR e.event_type = ANY (log_page_back.event_types))
       AND (log_page_back.stream IS NULL OR e.stream_id = log_page_back.stream)
       AND (log_page_back.stream_prefix IS NULL OR starts_with(e.stream_id, log_page_back.stream_prefix))
     ORDER BY e.global_sequence DESC
     LIMIT log_page_back.max_events;
END
$$;
