-- headwater_private.visible_in(namespace_id, ranges, max_events)
-- Returns what is visible in ranges of the log (first, last, first, last, …), in order, as the
-- caller's snapshot shows it: the first max_events. Each range has its own order and limit, so that
-- PostgreSQL looks it up in an index whatever the planner estimates.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.visible_in(namespace_id int, ranges bigint[], max_events int)
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    query  CONSTANT text :=
        'SELECT e.* FROM unnest($13, $14) AS g(first, last)
          CROSS JOIN LATERAL (SELECT e.* FROM %s e
                               WHERE %s AND e.namespace_id = $1 AND e.global_sequence BETWEEN g.first AND g.last
                                 AND e.recorded_at >= $5 AND e.recorded_at < $6
                               ORDER BY e.global_sequence LIMIT $4) e
          ORDER BY e.global_sequence LIMIT $4';
    lowest CONSTANT bigint := ranges[1];
    highest CONSTANT bigint := ranges[cardinality(ranges)];
    firsts CONSTANT bigint[] := ARRAY(SELECT ranges[i] FROM generate_series(1, cardinality(ranges), 2) AS i ORDER BY i);
    lasts  CONSTANT bigint[] := ARRAY(SELECT ranges[i + 1] FROM generate_series(1, cardinality(ranges), 2) AS i ORDER BY i);
    bounds record;
    one    record;
BEGIN
    SELECT l.* INTO bounds FROM headwater_private.log_bounds(visible_in.namespace_id, lowest - 1, highest, NULL) l;
    one := headwater_private.only_table(visible_in.namespace_id, lowest, highest, bounds.from_at, bounds.until_at);
    IF one.name IS NOT NULL THEN
        RETURN QUERY EXECUTE format(query, one.name, one.condition)
            USING visible_in.namespace_id, lowest, highest, max_events, bounds.from_at, bounds.until_at, NULL, NULL, NULL, NULL,
                  NULL, NULL, firsts, lasts;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events, query, visible_in.namespace_id, lowest, highest, max_events, bounds.from_at, bounds.until_at,
               firsts => firsts, lasts => lasts) e
     ORDER BY e.global_sequence LIMIT max_events;
END
$$;
