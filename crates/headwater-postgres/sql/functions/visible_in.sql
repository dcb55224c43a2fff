-- headwater_private.visible_in(namespace_id, ranges, max_events)
-- What is visible in ranges of the log (first, last, first, last, …), in order, as the caller's snapshot shows it: the first max_events. Each range has an order and a limit of its
-- own, so that it is looked up in an index, however the planner sees it.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.visible_in(namespace_id int, ranges bigint[], max_events int)
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bounds record;
BEGIN
    SELECT l.* INTO bounds FROM headwater_private.log_bounds(visible_in.namespace_id, ranges[1] - 1, ranges[cardinality(ranges)], NULL) l;
    RETURN QUERY EXECUTE
        'SELECT e.* FROM (' || headwater_private.over_months(
            'SELECT e.* FROM unnest($2, $3) AS g(first, last)
              CROSS JOIN LATERAL (SELECT e.* FROM %s e
                                   WHERE %s AND e.namespace_id = $1 AND e.global_sequence BETWEEN g.first AND g.last
                                     AND e.recorded_at >= $5 AND e.recorded_at < $6
                                   ORDER BY e.global_sequence LIMIT $4) e
              ORDER BY e.global_sequence LIMIT $4', visible_in.namespace_id, bounds.from_at, bounds.until_at)
        || ') e ORDER BY e.global_sequence LIMIT $4'
        USING visible_in.namespace_id, ARRAY(SELECT ranges[i] FROM generate_series(1, cardinality(ranges), 2) AS i ORDER BY i),
              ARRAY(SELECT ranges[i + 1] FROM generate_series(1, cardinality(ranges), 2) AS i ORDER BY i), max_events, bounds.from_at, bounds.until_at;
END
$$;
