-- headwater.log_page(namespace_id, after_sequence, up_to_sequence, max_events, event_types, stream, stream_prefix, from_at, until_at)
-- One page of what this snapshot shows of the log, in order: no proof that nothing is missing. headwater.read_log gives
-- that. A plain SELECT, so that the planner can look inside. NULL: no limit, no filter. from_at and until_at are those of headwater_private.log_bounds, as
-- values that the planner knows: no other leaves are opened.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.log_page(
    namespace_id int, after_sequence bigint, up_to_sequence bigint, max_events int,
    event_types text[], stream text, stream_prefix text, from_at timestamptz DEFAULT NULL, until_at timestamptz DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT headwater_private.authorize(log_page.namespace_id, caller, 'consumer') THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.* FROM headwater_private.events e
     WHERE e.namespace_id = log_page.namespace_id
       AND e.global_sequence > log_page.after_sequence
       AND e.global_sequence <= coalesce(log_page.up_to_sequence, 9223372036854775807)
       AND e.recorded_at >= coalesce(log_page.from_at, '-infinity') AND e.recorded_at < coalesce(log_page.until_at, 'infinity')
       AND (log_page.event_types IS NULL OR e.event_type = ANY (log_page.event_types))
       AND (log_page.stream IS NULL OR e.stream_id = log_page.stream)
       AND (log_page.stream_prefix IS NULL OR starts_with(e.stream_id, log_page.stream_prefix))
     ORDER BY e.global_sequence
     LIMIT log_page.max_events;
END
$$;
