-- headwater_private.close_gaps(namespace_id, safe, q)
-- Looks into the gaps that a queue passed: what has appeared there becomes an open range, what is at or below the horizon `safe`
-- and has not is gone for good. The horizon was asked in a statement before this one. A late event of a type that lies in an open range of
-- that type is part of it already.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.close_gaps(namespace_id int, safe bigint, INOUT q headwater_private.queue_state)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most   constant int := 1000;
    found  bigint[];
    types  text[];
    looked bigint := safe;
    bounds record;
BEGIN
    SELECT l.* INTO bounds FROM headwater_private.log_bounds(close_gaps.namespace_id, q.gaps[1] - 1, q.gaps[cardinality(q.gaps)], NULL) l;
    SELECT coalesce(array_agg(f.global_sequence), '{}'), array_agg(f.event_type) INTO found, types
      FROM (SELECT e.global_sequence, e.event_type
              FROM generate_series(1, cardinality(q.gaps), 2) AS i
             CROSS JOIN LATERAL (SELECT e.global_sequence, e.event_type FROM headwater_private.events e
                                  WHERE e.namespace_id = close_gaps.namespace_id AND e.global_sequence BETWEEN q.gaps[i] AND q.gaps[i + 1]
                                    AND e.recorded_at >= bounds.from_at AND e.recorded_at < bounds.until_at
                                  ORDER BY e.global_sequence LIMIT most) e
             ORDER BY e.global_sequence LIMIT most) f;
    IF cardinality(found) = most THEN
        looked := least(safe, found[most]);
    END IF;
    q.gaps := ARRAY(
        SELECT v.sequence
          FROM (SELECT greatest(p.before, looked) + 1 AS first, p.point - 1 AS last
                  FROM (SELECT lag(x.point, 1, g.first - 1) OVER (PARTITION BY g.first ORDER BY x.point) AS before, x.point
                          FROM (SELECT q.gaps[i] AS first, q.gaps[i + 1] AS last FROM generate_series(1, cardinality(q.gaps), 2) AS i) g
                         CROSS JOIN LATERAL (SELECT s.point FROM unnest(found) AS s(point) WHERE s.point BETWEEN g.first AND g.last
                                              UNION ALL SELECT g.last + 1) x) p) r
         CROSS JOIN LATERAL (VALUES (r.first), (r.last)) AS v(sequence)
         WHERE r.first <= r.last
         ORDER BY v.sequence);
    IF found <> '{}' THEN
        q.open := headwater_private.merge_open(q.open || ARRAY(
            SELECT ROW(f.sequence, f.sequence, f.event_type)::headwater_private.open_range FROM unnest(found, types) AS f(sequence, event_type)
             WHERE NOT EXISTS (SELECT FROM unnest(q.open) o
                                WHERE f.sequence BETWEEN o.first_sequence AND o.last_sequence AND o.event_type = f.event_type)));
    END IF;
END
$$;
