-- headwater.stream_page_back(namespace_id, stream_id, from_version, to_version, max_events, from_at, until_at)
-- headwater.stream_page backwards: the highest version first.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.stream_page_back(
    namespace_id int, stream_id text, from_version bigint, to_version bigint, max_events int,
    from_at timestamptz DEFAULT NULL, until_at timestamptz DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT headwater_private.authorize(stream_page_back.namespace_id, caller, 'consumer') THEN
        RETURN;
    END IF;
    RETURN QUERY EXECUTE
        'SELECT e.* FROM (' || headwater_private.over_months(
            'SELECT e.* FROM %s e
              WHERE %s AND e.namespace_id = $1 AND e.stream_id = $2 AND e.stream_version >= $3 AND e.stream_version <= $4
                AND e.recorded_at >= $6 AND e.recorded_at < $7
              ORDER BY e.stream_version DESC LIMIT $5', stream_page_back.namespace_id, stream_page_back.from_at, stream_page_back.until_at)
        || ') e ORDER BY e.stream_version DESC LIMIT $5'
        USING stream_page_back.namespace_id, stream_page_back.stream_id, coalesce(stream_page_back.from_version, 1),
              coalesce(stream_page_back.to_version, 9223372036854775807), stream_page_back.max_events, coalesce(stream_page_back.from_at, '-infinity'),
              coalesce(stream_page_back.until_at, 'infinity');
END
$$;
