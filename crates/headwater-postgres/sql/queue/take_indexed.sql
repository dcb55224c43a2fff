-- headwater_private.take_indexed(namespace, namespace_id, types, likes, keeps, room, q)
-- Takes up to `room` events after a queue's frontier, as take_new does, but finds them in the type
-- index. It moves the frontier past everything before them. If there are fewer events, it moves the
-- frontier to the horizon. If there are none, take_new looks on from there. It does nothing if the
-- namespace has no index that is ready.
-- The horizon is read in a statement before the look. What that look does not show at or below the
-- horizon will never come, so there are no gaps to record. Types that are passed become open ranges
-- if they are among `keeps`, as in take_new. Open ranges that end at the frontier grow with it.
-- Raises: WH006. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.take_indexed(
    namespace text, namespace_id int, types text[], likes text[], keeps text[], room int, INOUT q headwater_private.queue_state, OUT taken bigint[], OUT of_types text[]
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    safe  bigint;
    ahead record;
BEGIN
    IF NOT headwater_private.has_index(take_indexed.namespace_id) THEN
        RETURN;
    END IF;
    SELECT h.horizon INTO safe FROM headwater_private.horizon_of(take_indexed.namespace_id) h;
    IF safe <= q.frontier THEN
        RETURN;
    END IF;
    ahead := headwater_private.typed_ahead(take_indexed.namespace_id, types, likes, q.frontier, safe, room);
    IF ahead.taken IS NULL THEN
        RETURN;
    END IF;
    q.open := ARRAY(
        SELECT ROW(o.first_sequence, CASE WHEN o.last_sequence = q.frontier
                                          AND NOT CASE WHEN likes IS NULL THEN o.event_type = ANY (types) ELSE o.event_type LIKE ANY (likes) END
                                     THEN ahead.edge ELSE o.last_sequence END, o.event_type)::headwater_private.open_range
          FROM unnest(q.open) o
         UNION ALL
        SELECT ROW(q.frontier + 1, ahead.edge, p.type)::headwater_private.open_range
          FROM unnest(headwater_private.types_taken(ahead.passed, keeps)) AS p(type)
         WHERE NOT EXISTS (SELECT FROM unnest(q.open) o WHERE o.last_sequence = q.frontier AND o.event_type = p.type));
    q.frontier := ahead.edge;
    taken := ahead.taken;
    of_types := ahead.of_types;
END
$$;
