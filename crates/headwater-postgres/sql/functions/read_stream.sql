-- headwater.read_stream(namespace, stream_id, from_version, to_version, max_events, backwards)
-- Public: in docs/sql.md.
-- Events of a stream by version, both bounds included; NULL: no bound. A stream that does not exist has none.
-- Raises: WH001, WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.read_stream(
    namespace    text,
    stream_id    text,
    from_version bigint DEFAULT NULL,
    to_version   bigint DEFAULT NULL,
    max_events   int DEFAULT 1000,
    backwards    boolean DEFAULT false,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(read_stream.namespace, caller, 'consumer');
    bounds record;
BEGIN
    PERFORM headwater_private.check_max_events(read_stream.max_events);
    PERFORM headwater_private.check_name('stream_id', coalesce(read_stream.stream_id, ''), 512);
    bounds := headwater_private.stream_bounds(ns.namespace_id, read_stream.stream_id, read_stream.from_version, read_stream.to_version,
                                      read_stream.max_events, read_stream.backwards);
    IF backwards THEN
        RETURN QUERY SELECT p.* FROM headwater.stream_page_back(ns.namespace_id, read_stream.stream_id,
                                     read_stream.from_version, read_stream.to_version, read_stream.max_events,
                                     bounds.from_at, bounds.until_at) p;
    ELSE
        RETURN QUERY SELECT p.* FROM headwater.stream_page(ns.namespace_id, read_stream.stream_id,
                                     read_stream.from_version, read_stream.to_version, read_stream.max_events,
                                     bounds.from_at, bounds.until_at) p;
    END IF;
END
$$;
