-- headwater_private.passed_by_type(namespace_id, after_sequence, up_to_sequence, event_types)
-- Finds in the type index what a partition that asks for some types may pass at once. `seen` holds
-- the sequences of the events after after_sequence and before the next event of these types, or up
-- to up_to_sequence if there is none. The caller has checked the horizon for up_to_sequence.
-- `reach` is where that ends. Checkpoints count everything that they pass, so the sequences are
-- read, but nothing else of the events; at most 100,000 at a time. `reach` is NULL if an event of
-- these types is near, or the namespace has no index that is ready.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.passed_by_type(
    namespace_id int, after_sequence bigint, up_to_sequence bigint, event_types text[], OUT seen bigint[], OUT reach bigint
) LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    near   constant bigint := 2000;
    most   constant int := 100000;
    bounds record;
    last   bigint;
BEGIN
    after_sequence := greatest(after_sequence, 0);
    IF coalesce(greatest(up_to_sequence, 0) - after_sequence < near, true) OR NOT headwater_private.has_index(passed_by_type.namespace_id) THEN
        RETURN;
    END IF;
    last := coalesce((headwater_private.typed_sequences(passed_by_type.namespace_id,
        ARRAY(SELECT ROW(after_sequence + 1, up_to_sequence, t.t)::headwater_private.open_range FROM (SELECT DISTINCT unnest(event_types) AS t) t), 1))[1] - 1,
        up_to_sequence);
    IF last - after_sequence < near THEN
        RETURN;
    END IF;
    SELECT l.* INTO bounds FROM headwater_private.log_bounds(passed_by_type.namespace_id, after_sequence, last, NULL) l;
    SELECT array_agg(p.sequence ORDER BY p.sequence) INTO seen
      FROM (SELECT p.sequence
              FROM headwater_private.by_month(
                       NULL::bigint,
                       'SELECT e.global_sequence FROM %s e
                         WHERE %s AND e.namespace_id = $1 AND e.global_sequence > $2 AND e.global_sequence <= $3
                           AND e.recorded_at >= $5 AND e.recorded_at < $6
                         ORDER BY e.global_sequence LIMIT $4',
                       passed_by_type.namespace_id, after_sequence, last, most, bounds.from_at, bounds.until_at) AS p(sequence)
             ORDER BY p.sequence LIMIT most) p;
    reach := CASE WHEN cardinality(seen) = most THEN seen[most] ELSE last END;
END
$$;
