-- headwater.read_stream(namespace, stream_id, from_version, to_version, max_events, backwards)
-- Public: in docs/sql.md.
-- Returns events of a stream by version, both bounds included; NULL: no bound. A stream that does
-- not exist has no events.
-- Raises: WH001, WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.read_stream(
    namespace    text,
    stream_id    text,
    from_version bigint DEFAULT NULL,
    to_version   bigint DEFAULT NULL,
    max_events   int DEFAULT 1000,
    backwards    boolean DEFAULT false,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    query   CONSTANT text :=
        'SELECT e.* FROM %s e
          WHERE %s AND e.namespace_id = $1 AND e.stream_id = $8 AND e.stream_version >= ($13)[1] AND e.stream_version <= ($14)[1]
            AND e.recorded_at >= $5 AND e.recorded_at < $6';
    ns      headwater_private.namespaces := headwater_private.open_namespace(read_stream.namespace, caller, 'consumer');
    stream  record;
    lowest  bigint := greatest(read_stream.from_version, 1);
    highest bigint;
    -- The versions of the page, if none of them was trimmed.
    first   bigint;
    last    bigint;
    found   bigint;
BEGIN
    PERFORM headwater_private.check_max_events(read_stream.max_events);
    PERFORM headwater_private.check_name('stream_id', coalesce(read_stream.stream_id, ''), 512);
    -- The stream's row knows when its first and its last event were recorded.
    SELECT s.version, greatest(ns.kept_from, s.first_at) AS first_at, s.last_at + interval '1 microsecond' AS end_at INTO stream
      FROM headwater_private.streams s WHERE s.namespace_id = ns.namespace_id AND s.stream_id = read_stream.stream_id;
    highest := least(read_stream.to_version, stream.version);
    IF stream.version IS NULL OR highest < lowest THEN
        RETURN;
    END IF;
    first := CASE WHEN read_stream.backwards THEN greatest(lowest, highest - read_stream.max_events + 1) ELSE lowest END;
    last := CASE WHEN read_stream.backwards THEN highest ELSE least(highest, lowest + read_stream.max_events - 1) END;
    -- A stream has no gaps: once every version of the page was found, no further month is opened,
    -- whatever the clock did in the meantime. The search begins at the nearer end of the stream.
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events, query, ns.namespace_id, max_rows => last - first + 1, from_at => stream.first_at,
               until_at => stream.end_at, stream => read_stream.stream_id, firsts => ARRAY[first], lasts => ARRAY[last],
               newest_first => first - 1 >= stream.version - last) e
     ORDER BY CASE WHEN read_stream.backwards THEN -e.stream_version ELSE e.stream_version END;
    GET DIAGNOSTICS found = ROW_COUNT;
    IF found > last - first OR first = lowest AND last = highest THEN
        RETURN;
    END IF;
    -- Some versions were trimmed: the next ones take their places.
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events, query || ' ORDER BY e.stream_version' || CASE WHEN read_stream.backwards THEN ' DESC' ELSE '' END || ' LIMIT $4',
               ns.namespace_id, max_rows => read_stream.max_events - found, from_at => stream.first_at, until_at => stream.end_at,
               stream => read_stream.stream_id, firsts => ARRAY[CASE WHEN read_stream.backwards THEN lowest ELSE last + 1 END],
               lasts => ARRAY[CASE WHEN read_stream.backwards THEN first - 1 ELSE highest END], newest_first => read_stream.backwards) e
     ORDER BY CASE WHEN read_stream.backwards THEN -e.stream_version ELSE e.stream_version END LIMIT read_stream.max_events - found;
END
$$;
