-- headwater_private.take_open(namespace_id, tail_after, tail_from, types, likes, room, max_scan, q, taken, of_types, listed, scanned, more)
-- Takes up to `room` events out of a queue's open ranges, in the order of the log: of `types`, or like one of `likes` if that is not NULL; both NULL: of any type.
-- What lies in a gap is left to close_gaps, also if it has appeared meanwhile. Looks on until there is room no more, or something was found and
-- thousands of sequences were looked at, or all of them, or max_scan (NULL: no limit): then `more` tells that nothing was found so far.
-- Answers the events, and, if not `listed`, of which types they are all between the first and the last; and how many sequences were looked at.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.take_open(
    namespace_id int, tail_after bigint, tail_from timestamptz, types text[], likes text[], room int, max_scan bigint, INOUT q headwater_private.queue_state,
    OUT taken bigint[], OUT of_types text[], OUT listed boolean, OUT scanned bigint, OUT more boolean
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    enough   constant bigint := 10000;
    size     bigint := least(greatest(4 * room::bigint, 200), enough);
    wanted   headwater_private.open_range[];
    at       bigint := 0;
    part     record;
    these    bigint[];
    -- Whether the index by type was asked.
    asked    boolean := false;
    -- Between the first that was taken and here, ranges begin or end: the types alone do not tell which events were taken.
    broken   boolean := false;
BEGIN
    taken := '{}';
    listed := q.gaps <> '{}';
    scanned := 0;
    more := false;
    wanted := CASE WHEN types IS NULL AND likes IS NULL THEN q.open
                   ELSE ARRAY(SELECT o FROM unnest(q.open) o
                               WHERE CASE WHEN likes IS NULL THEN o.event_type = ANY (types) ELSE o.event_type LIKE ANY (likes) END) END;
    IF cardinality(wanted) = 0 THEN
        RETURN;
    END IF;
    LOOP
        -- From where the next range begins to where one begins or ends: so far they are the same ones.
        SELECT l.low, least(min(CASE WHEN o.first_sequence <= l.low THEN o.last_sequence ELSE o.first_sequence - 1 END), l.low + size - 1) AS high,
               array_agg(o.event_type) FILTER (WHERE o.first_sequence <= l.low) AS types
          INTO part
          FROM (SELECT min(greatest(o.first_sequence, at)) AS low FROM unnest(wanted) o WHERE o.last_sequence >= at) l
          JOIN unnest(wanted) o ON o.last_sequence >= l.low
         GROUP BY l.low;
        EXIT WHEN NOT FOUND;
        IF part.low > tail_after THEN
            these := ARRAY(
                SELECT e.global_sequence FROM headwater_private.events e
                 WHERE e.namespace_id = take_open.namespace_id AND e.global_sequence BETWEEN part.low AND part.high
                   AND e.recorded_at >= tail_from AND e.event_type = ANY (part.types)
                   AND (q.gaps = '{}' OR NOT EXISTS (SELECT FROM generate_series(1, cardinality(q.gaps), 2) AS i
                                                      WHERE e.global_sequence BETWEEN q.gaps[i] AND q.gaps[i + 1]))
                 ORDER BY e.global_sequence LIMIT room - cardinality(taken));
        ELSE
            these := ARRAY(
                SELECT e.global_sequence FROM headwater_private.events_in(take_open.namespace_id, part.low, part.high, part.types) e
                 WHERE NOT EXISTS (SELECT FROM generate_series(1, cardinality(q.gaps), 2) AS i
                                    WHERE e.global_sequence BETWEEN q.gaps[i] AND q.gaps[i + 1])
                 ORDER BY e.global_sequence LIMIT room - cardinality(taken));
        END IF;
        IF cardinality(taken) = 0 THEN
            of_types := part.types;
        ELSE
            broken := broken OR part.low <> at OR NOT (of_types <@ part.types AND part.types <@ of_types);
            listed := listed OR broken AND cardinality(these) > 0;
        END IF;
        taken := taken || these;
        at := CASE WHEN cardinality(taken) >= room THEN taken[room] ELSE part.high END + 1;
        scanned := scanned + at - part.low;
        EXIT WHEN cardinality(taken) >= room OR cardinality(taken) > 0 AND scanned >= enough;
        IF NOT asked AND cardinality(taken) = 0 THEN
            -- Nothing near: where the namespace has an index by type, it tells what comes next.
            asked := true;
            these := headwater_private.open_indexed(take_open.namespace_id, wanted, at, q.gaps, room);
            IF these IS NOT NULL THEN
                taken := these;
                of_types := ARRAY(SELECT DISTINCT o.event_type FROM unnest(wanted) o);
                listed := true;
                at := CASE WHEN cardinality(taken) >= room THEN taken[room] ELSE (SELECT max(o.last_sequence) FROM unnest(wanted) o) END + 1;
                EXIT;
            END IF;
        END IF;
        IF scanned >= max_scan THEN
            more := cardinality(taken) = 0;
            EXIT;
        END IF;
        size := least(4 * size, 50000);
    END LOOP;
    q.open := ARRAY(
        SELECT ROW(CASE WHEN w.wanted THEN greatest(o.first_sequence, at) ELSE o.first_sequence END, o.last_sequence,
                   o.event_type)::headwater_private.open_range
          FROM unnest(q.open) o
         CROSS JOIN LATERAL (SELECT types IS NULL AND likes IS NULL
                                    OR CASE WHEN likes IS NULL THEN o.event_type = ANY (types) ELSE o.event_type LIKE ANY (likes) END AS wanted) w
         WHERE NOT w.wanted OR o.last_sequence >= at);
END
$$;
