-- headwater.stream_page(namespace_id, stream_id, from_version, to_version, max_events, from_at, until_at)
-- Events of a stream with versions from … to, both included, in order. NULL: no bound. A stream has no gaps: its next version
-- cannot be appended while the transaction of the last is open. from_at and until_at are those of headwater_private.stream_bounds: no other leaves are opened.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.stream_page(
    namespace_id int, stream_id text, from_version bigint, to_version bigint, max_events int,
    from_at timestamptz DEFAULT NULL, until_at timestamptz DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT headwater_private.authorize(stream_page.namespace_id, caller, 'consumer') THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.* FROM headwater_private.events e
     WHERE e.namespace_id = stream_page.namespace_id AND e.stream_id = stream_page.stream_id
       AND e.stream_version >= coalesce(stream_page.from_version, 1)
       AND e.stream_version <= coalesce(stream_page.to_version, 9223372036854775807)
       AND e.recorded_at >= coalesce(stream_page.from_at, '-infinity') AND e.recorded_at < coalesce(stream_page.until_at, 'infinity')
     ORDER BY e.stream_version
     LIMIT stream_page.max_events;
END
$$;
