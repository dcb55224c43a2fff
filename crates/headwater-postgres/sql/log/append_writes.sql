-- headwater.append_writes(namespace, writes)
-- The work of headwater.append(namespace, writes).
-- Its cost is linear in the events and their bytes, and it writes no temporary files, for three
-- reasons. Subscripts and generate_series in the list of a SELECT stream their rows, where
-- jsonb_array_elements collects all elements in a store that spills to disk. The events of a write
-- are one value in one row, never a column in a row per event that is sorted. And rows come in
-- order, so nothing is sorted at all.
-- Raises: WH001, WH002 (bad input), WH004, WH005, WH007 (version conflict), WH015. Locks, writes:
-- see append_batch.
CREATE OR REPLACE FUNCTION headwater.append_writes(namespace text, writes jsonb, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (event_id uuid, global_sequence bigint, stream_id text, stream_version bigint) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    w      record;
    e      record;
    r      record;
    events jsonb[];
    -- For each event: its stream, the number of its write among the writes with a stream, and its
    -- place in that write. They are variables because plpgsql subscripts the arrays of variables in
    -- constant time.
    streams text[];
    ranks   int[];
    places  int[];
BEGIN
    PERFORM headwater_private.open_namespace(append_writes.namespace, caller, 'producer');
    -- A value that comes out of a table is compressed, and each subscript would unpack all of it
    -- again. This unpacks it once.
    IF jsonb_typeof(append_writes.writes) = 'array' THEN
        writes := append_writes.writes || '[]';
    END IF;
    IF NOT headwater_private.are_writes(append_writes.writes) THEN
        -- check_writes raises the error that says what is wrong.
        PERFORM headwater_private.check_writes(append_writes.writes);
    END IF;
    SELECT array_agg(x.stream_id) AS streams, array_agg(x.expected) AS expected, array_agg(x.events) AS counts, array_agg(1) AS requests
      INTO w
      FROM (SELECT v.value ->> 'stream_id' AS stream_id, (v.value ->> 'expected_version')::bigint AS expected,
                   CASE jsonb_typeof(v.value -> 'events') WHEN 'array' THEN jsonb_array_length(v.value -> 'events') ELSE 1 END AS events
              FROM (SELECT append_writes.writes -> i.i AS value
                      FROM (SELECT generate_series(0, jsonb_array_length(append_writes.writes) - 1) AS i) i OFFSET 0) v) x
     WHERE x.stream_id IS NOT NULL;
    SELECT array_agg(CASE jsonb_typeof(x.events) WHEN 'array' THEN x.events -> (x.place - 1) ELSE x.events END),
           array_agg(x.stream_id), array_agg(CASE WHEN x.stream_id IS NOT NULL THEN x.rank END),
           array_agg(CASE WHEN x.stream_id IS NOT NULL THEN x.place END)
      INTO events, streams, ranks, places
      FROM (SELECT v.stream_id, v.rank, v.events,
                   generate_series(1, CASE jsonb_typeof(v.events) WHEN 'array' THEN jsonb_array_length(v.events) ELSE 1 END) AS place
              FROM (SELECT u.stream_id, u.rank, append_writes.writes -> u.i -> 'events' AS events
                      FROM (SELECT s.i, s.stream_id, (count(s.stream_id) OVER (ROWS UNBOUNDED PRECEDING))::int AS rank
                              FROM (SELECT i.i, append_writes.writes -> i.i ->> 'stream_id' AS stream_id
                                      FROM (SELECT generate_series(0, jsonb_array_length(append_writes.writes) - 1) AS i) i
                                    OFFSET 0) s
                            OFFSET 0) u
                    OFFSET 0) v
            OFFSET 0) x;
    SELECT array_agg(coalesce((x.value ->> 'id')::uuid, headwater.uuid_v7())) AS ids,
           array_agg(x.value ->> 'type') AS types,
           array_agg(coalesce(x.value -> 'data', 'null')::text) AS data,
           array_agg((x.value ->> 'schema_version')::int) AS schema_versions,
           array_agg(x.value ->> 'key') AS keys,
           array_agg(x.value ->> 'actor_id') AS actors,
           array_agg((x.value ->> 'correlation_id')::uuid) AS correlations,
           array_agg((x.value ->> 'causation_id')::uuid) AS causations,
           array_agg(nullif(x.value -> 'headers', 'null')::text) AS headers,
           array_agg(CASE WHEN x.value ->> 'created_at' IS NOT NULL
                          THEN headwater_private.json_time('created_at', x.value ->> 'created_at') END) AS created
      INTO e
      FROM (SELECT unnest(events) AS value OFFSET 0) x;
    SELECT b.* INTO r FROM headwater.append_batch(append_writes.namespace, NULL, e.ids, e.types, e.data, streams, ranks, places,
        e.schema_versions, e.keys, e.actors, e.correlations, e.causations, e.headers, e.created,
        w.requests, w.streams, w.counts, w.expected, true, NULL) b;
    IF NOT r.succeeded[1] AND NOT r.retried THEN
        PERFORM headwater_private.fail('WH007',
            format('stream %L is at version %s, not %s', left(c.stream, 80), c.actual,
                   CASE c.expected WHEN 0 THEN 'new' WHEN -1 THEN 'existing' ELSE c.expected::text END),
            jsonb_build_object('stream_id', c.stream, 'expected', c.expected, 'actual', c.actual),
            'read the stream again, decide again, append again')
          FROM unnest(w.streams, w.expected, r.bases) AS c(stream, expected, actual)
         WHERE c.expected IS NOT NULL AND NOT CASE c.expected WHEN -1 THEN c.actual > 0 ELSE c.actual = c.expected END
         LIMIT 1;
    END IF;
    RETURN QUERY
        SELECT x.id, x.sequence, x.stream,
               CASE WHEN r.retried THEN x.version ELSE r.bases[x.write] + x.place END
          FROM (SELECT unnest(e.ids) AS id, unnest(r.sequences) AS sequence, unnest(streams) AS stream, unnest(r.versions) AS version,
                       unnest(ranks) AS write, unnest(places) AS place OFFSET 0) x;
END
$$;
