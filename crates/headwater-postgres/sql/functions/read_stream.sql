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
BEGIN
    PERFORM headwater_private.check_max_events(read_stream.max_events);
    PERFORM headwater_private.check_name('stream_id', coalesce(read_stream.stream_id, ''), 512);
    -- Its row knows when its first and its last event were recorded.
    SELECT s.version, greatest(ns.kept_from, s.first_at) AS first_at, s.last_at + interval '1 microsecond' AS end_at INTO stream
      FROM headwater_private.streams s WHERE s.namespace_id = ns.namespace_id AND s.stream_id = read_stream.stream_id;
    highest := least(read_stream.to_version, stream.version);
    IF read_stream.backwards THEN
        lowest := greatest(lowest, highest - read_stream.max_events + 1);
    ELSIF lowest <= highest THEN
        highest := least(highest, lowest + read_stream.max_events - 1);
    END IF;
    IF stream.version IS NULL OR highest < lowest THEN
        RETURN;
    END IF;
    -- A stream has no gaps: once as many versions as there are were found, no further month is opened, whatever the clock did meanwhile. If
    -- some are not found, they were trimmed. They are looked for from the nearer end of the stream.
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events, query, ns.namespace_id, max_rows => highest - lowest + 1, from_at => stream.first_at,
               until_at => stream.end_at, stream => read_stream.stream_id, firsts => ARRAY[lowest], lasts => ARRAY[highest],
               newest_first => lowest - 1 >= stream.version - highest) e
     ORDER BY CASE WHEN read_stream.backwards THEN -e.stream_version ELSE e.stream_version END;
END
$$;
