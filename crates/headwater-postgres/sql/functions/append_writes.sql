-- headwater.append_writes(namespace, writes)
-- What headwater.append(namespace, writes) does.
-- Raises: WH001, WH002 (bad input), WH004, WH005, WH007 (version conflict), WH015. Locks, writes: see append_batch.
CREATE OR REPLACE FUNCTION headwater.append_writes(namespace text, writes jsonb, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (event_id uuid, global_sequence bigint, stream_id text, stream_version bigint) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    w record;
    e record;
    r record;
BEGIN
    PERFORM headwater_private.open_namespace(append_writes.namespace, caller, 'producer');
    PERFORM headwater_private.check_writes(append_writes.writes);
    SELECT array_agg(x.stream_id ORDER BY x.ord) AS streams, array_agg(x.expected ORDER BY x.ord) AS expected,
           array_agg(x.events ORDER BY x.ord) AS counts, array_agg(1) AS requests
      INTO w
      FROM (SELECT w.ord, w.value ->> 'stream_id' AS stream_id, (w.value ->> 'expected_version')::bigint AS expected,
                   CASE jsonb_typeof(w.value -> 'events') WHEN 'array' THEN jsonb_array_length(w.value -> 'events') ELSE 1 END AS events
              FROM jsonb_array_elements(append_writes.writes) WITH ORDINALITY AS w(value, ord)
             WHERE w.value ->> 'stream_id' IS NOT NULL) x;
    SELECT array_agg(coalesce((x.value ->> 'id')::uuid, headwater.uuid_v7()) ORDER BY x.w_ord, x.ord) AS ids,
           array_agg(x.value ->> 'type' ORDER BY x.w_ord, x.ord) AS types,
           array_agg(coalesce(x.value -> 'data', 'null')::text ORDER BY x.w_ord, x.ord) AS data,
           array_agg(x.stream_id ORDER BY x.w_ord, x.ord) AS streams,
           array_agg(CASE WHEN x.stream_id IS NOT NULL THEN x.write END ORDER BY x.w_ord, x.ord) AS writes,
           array_agg(CASE WHEN x.stream_id IS NOT NULL THEN x.ord END ORDER BY x.w_ord, x.ord) AS offsets,
           array_agg((x.value ->> 'schema_version')::int ORDER BY x.w_ord, x.ord) AS schema_versions,
           array_agg(x.value ->> 'key' ORDER BY x.w_ord, x.ord) AS keys,
           array_agg(x.value ->> 'actor_id' ORDER BY x.w_ord, x.ord) AS actors,
           array_agg((x.value ->> 'correlation_id')::uuid ORDER BY x.w_ord, x.ord) AS correlations,
           array_agg((x.value ->> 'causation_id')::uuid ORDER BY x.w_ord, x.ord) AS causations,
           array_agg(nullif(x.value -> 'headers', 'null')::text ORDER BY x.w_ord, x.ord) AS headers,
           array_agg(headwater_private.json_time('created_at', x.value ->> 'created_at') ORDER BY x.w_ord, x.ord) AS created
      INTO e
      FROM (SELECT w.value ->> 'stream_id' AS stream_id, w.ord AS w_ord, e.value, e.ord,
                   (count(*) FILTER (WHERE e.ord = 1 AND w.value ->> 'stream_id' IS NOT NULL) OVER (ORDER BY w.ord))::int AS write
              FROM jsonb_array_elements(append_writes.writes) WITH ORDINALITY AS w(value, ord),
                   jsonb_array_elements(CASE jsonb_typeof(w.value -> 'events') WHEN 'array' THEN w.value -> 'events'
                                        ELSE jsonb_build_array(w.value -> 'events') END) WITH ORDINALITY AS e(value, ord)) x;
    SELECT b.* INTO r FROM headwater.append_batch(append_writes.namespace, NULL, e.ids, e.types, e.data, e.streams, e.writes, e.offsets::int[],
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
               CASE WHEN r.retried THEN x.version ELSE r.bases[x.write] + x.write_offset END
          FROM unnest(e.ids, r.sequences, e.streams, r.versions, e.writes, e.offsets::int[])
               AS x(id, sequence, stream, version, write, write_offset);
END
$$;
