-- headwater_private.close_gaps(namespace_id, safe, takes, q)
-- Looks into the gaps that a queue passed. Events that have appeared there become open ranges, one
-- per gap and type. What is at or below the horizon `safe` and has not appeared will never come.
-- The horizon was read in a statement before this one. If a late event lies in an open range of its
-- type, it is part of that range already. An event whose type the queue does not take, by `takes`
-- (NULL: it takes all types), is settled. The function looks at some thousand events at a time,
-- until it has looked at all.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.close_gaps(namespace_id int, safe bigint, takes text[], INOUT q headwater_private.queue_state)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most   constant int := 10000;
    found  bigint[];
    types  text[];
    wanted text[];
    gap_of bigint[];
    looked bigint;
    tail_from timestamptz;
BEGIN
    LOOP
        SELECT n.tail_from INTO tail_from FROM headwater_private.namespaces n
         WHERE n.namespace_id = close_gaps.namespace_id AND n.storage = 'shared' AND n.tail_after < q.gaps[1];
        IF tail_from IS NOT NULL THEN
            SELECT coalesce(array_agg(f.global_sequence), '{}'), array_agg(f.event_type), array_agg(f.gap) INTO found, types, gap_of
              FROM (SELECT e.global_sequence, e.event_type, q.gaps[i] AS gap
                      FROM generate_series(1, cardinality(q.gaps), 2) AS i
                     CROSS JOIN LATERAL (SELECT e.global_sequence, e.event_type FROM headwater_private.events e
                                          WHERE e.namespace_id = close_gaps.namespace_id AND e.global_sequence BETWEEN q.gaps[i] AND q.gaps[i + 1]
                                            AND e.recorded_at >= tail_from
                                          ORDER BY e.global_sequence LIMIT most) e
                     ORDER BY e.global_sequence LIMIT most) f;
        ELSE
            SELECT coalesce(array_agg(f.global_sequence), '{}'), array_agg(f.event_type), array_agg(f.gap) INTO found, types, gap_of
              FROM (SELECT e.global_sequence, e.event_type, q.gaps[i] AS gap
                      FROM generate_series(1, cardinality(q.gaps), 2) AS i
                     CROSS JOIN LATERAL headwater_private.events_in(close_gaps.namespace_id, q.gaps[i], q.gaps[i + 1], NULL, most) e
                     ORDER BY e.global_sequence LIMIT most) f;
        END IF;
        looked := CASE WHEN cardinality(found) = most THEN least(safe, found[most]) ELSE safe END;
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
        EXIT WHEN cardinality(found) = 0;
        wanted := headwater_private.types_taken(ARRAY(SELECT DISTINCT unnest(types)), takes);
        -- Between two events of a type in a gap, every event of that type is one of these, is still
        -- in a gap, or never comes.
        q.open := headwater_private.merge_open(q.open || ARRAY(
            SELECT ROW(min(f.sequence), max(f.sequence), f.event_type)::headwater_private.open_range
              FROM unnest(found, types, gap_of) AS f(sequence, event_type, gap)
             WHERE f.event_type = ANY (wanted)
               AND NOT EXISTS (SELECT FROM unnest(q.open) o
                                WHERE f.sequence BETWEEN o.first_sequence AND o.last_sequence AND o.event_type = f.event_type)
             GROUP BY f.gap, f.event_type));
        EXIT WHEN cardinality(found) < most OR cardinality(q.gaps) = 0;
    END LOOP;
END
$$;
