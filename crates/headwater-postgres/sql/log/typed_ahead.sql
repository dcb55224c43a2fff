-- headwater_private.typed_ahead(namespace_id, types, likes, after_sequence, up_to_sequence, room)
-- Reads the type index between two sequences of the log, in one snapshot. `taken`: the first `room`
-- events of `types`, or of types like one of `likes` if that is not NULL. of_types: their types.
-- `passed`: which other types have events before the last of them, or before the end if there are
-- fewer. `taken` is NULL if the namespace has no index that is ready, or has so many types that
-- reading the log costs less.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.typed_ahead(
    namespace_id int, types text[], likes text[], after_sequence bigint, up_to_sequence bigint, room int,
    OUT taken bigint[], OUT of_types text[], OUT edge bigint, OUT passed text[]
) LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most_types constant int := 1000;
    present    text[];
BEGIN
    IF NOT headwater_private.has_index(typed_ahead.namespace_id) THEN
        RETURN;
    END IF;
    present := headwater_private.indexed_types(typed_ahead.namespace_id, most_types);
    IF cardinality(present) = most_types THEN
        RETURN;
    END IF;
    SELECT array_agg(p.type) FILTER (WHERE w.wanted), array_agg(p.type) FILTER (WHERE NOT w.wanted) INTO of_types, passed
      FROM unnest(present) AS p(type)
     CROSS JOIN LATERAL (SELECT CASE WHEN likes IS NULL THEN p.type = ANY (types) ELSE p.type LIKE ANY (likes) END AS wanted) w;
    taken := headwater_private.typed_sequences(typed_ahead.namespace_id,
        ARRAY(SELECT ROW(after_sequence + 1, up_to_sequence, t.type)::headwater_private.open_range FROM unnest(of_types) AS t(type)), room);
    edge := CASE WHEN cardinality(taken) >= room THEN taken[room] ELSE up_to_sequence END;
    passed := ARRAY(SELECT p.type FROM unnest(passed) AS p(type)
                     -- One lookup each: a join might read the whole index.
                     WHERE (SELECT i.global_sequence FROM headwater_private.type_index i
                             WHERE i.namespace_id = typed_ahead.namespace_id AND i.event_type = p.type
                               AND i.global_sequence > after_sequence AND i.global_sequence <= edge
                             ORDER BY i.event_type, i.global_sequence LIMIT 1) IS NOT NULL);
END
$$;
