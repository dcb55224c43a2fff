-- headwater_private.take_open(namespace_id, tail_after, tail_from, types, likes, room, max_scan, q,
-- taken, of_types, listed, one_table, scanned, more)
-- Takes up to `room` events out of a queue's open ranges, in the order of the log. It takes events
-- of `types`, or of types like one of `likes` if that is not NULL. Both NULL: of all types. Events
-- in a gap are left to close_gaps, even if they have appeared in the meantime.
-- It looks on until one of these holds: there is hardly any room left; something was found and
-- thousands of sequences were looked at; all open ranges were looked at; max_scan sequences were
-- looked at (NULL: no limit).
--   taken      the events
--   of_types   if not `listed`: they are all events of these types between the first and the last
--   one_table  they are all in one table
--   scanned    how many sequences were looked at
--   more       max_scan sequences were looked at, and nothing was found
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.take_open(
    namespace_id int, tail_after bigint, tail_from timestamptz, types text[], likes text[], room int, max_scan bigint, INOUT q headwater_private.queue_state,
    OUT taken bigint[], OUT of_types text[], OUT listed boolean, OUT one_table boolean, OUT scanned bigint, OUT more boolean
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    enough   constant bigint := 10000;
    -- Usually there is one range, and about every second event in it is of its type. Then no
    -- statement is needed to choose the range and to shorten it.
    only_one constant boolean := cardinality(q.open) = 1 AND likes IS NULL;
    size     bigint := 2 * room::bigint;
    wanted   headwater_private.open_range[];
    at       bigint := 0;
    low      bigint;
    high     bigint;
    low_of   text[];
    seen     record;
    these    bigint[];
    -- Whether the type index was read.
    asked    boolean := false;
    -- Whether a range begins or ends between the first event that was taken and here. Then the
    -- types alone do not tell which events were taken.
    broken   boolean := false;
BEGIN
    taken := '{}';
    listed := q.gaps <> '{}';
    one_table := false;
    scanned := 0;
    more := false;
    IF only_one THEN
        wanted := CASE WHEN types IS NULL OR (q.open[1]).event_type = ANY (types) THEN q.open ELSE '{}' END;
    ELSIF types IS NULL AND likes IS NULL THEN
        wanted := q.open;
    ELSE
        wanted := ARRAY(SELECT o FROM unnest(q.open) o
                         WHERE CASE WHEN likes IS NULL THEN o.event_type = ANY (types) ELSE o.event_type LIKE ANY (likes) END);
    END IF;
    IF cardinality(wanted) = 0 THEN
        RETURN;
    END IF;
    LOOP
        -- From the start of the next range to where a range begins or ends: in between, the ranges
        -- are the same.
        IF only_one THEN
            low := greatest((wanted[1]).first_sequence, at);
            high := least((wanted[1]).last_sequence, low + size - 1);
            low_of := ARRAY[(wanted[1]).event_type];
            EXIT WHEN high < low;
        ELSE
            SELECT l.low, least(min(CASE WHEN o.first_sequence <= l.low THEN o.last_sequence ELSE o.first_sequence - 1 END), l.low + size - 1),
                   array_agg(o.event_type) FILTER (WHERE o.first_sequence <= l.low)
              INTO low, high, low_of
              FROM (SELECT min(greatest(o.first_sequence, at)) AS low FROM unnest(wanted) o WHERE o.last_sequence >= at) l
              JOIN unnest(wanted) o ON o.last_sequence >= l.low
             GROUP BY l.low;
            EXIT WHEN NOT FOUND;
        END IF;
        these := NULL;
        IF low > tail_after AND NOT listed THEN
            seen := headwater_private.scan_log(take_open.namespace_id, low - 1, high - low + 1, tail_from, low_of, NULL, NULL);
            IF seen.highest = high AND seen.looked = high - low + 1 THEN
                these := CASE WHEN cardinality(seen.taken) <= room - cardinality(taken) THEN seen.taken
                              ELSE seen.taken[1:room - cardinality(taken)] END;
                one_table := seen.one_table AND cardinality(taken) = 0;
            END IF;
        END IF;
        IF these IS NULL THEN
            -- There are holes or gaps.
            one_table := false;
            IF low > tail_after THEN
                these := ARRAY(
                    SELECT e.global_sequence FROM headwater_private.events e
                     WHERE e.namespace_id = take_open.namespace_id AND e.global_sequence BETWEEN low AND high
                       AND e.recorded_at >= tail_from AND e.event_type = ANY (low_of)
                       AND (q.gaps = '{}' OR NOT EXISTS (SELECT FROM generate_series(1, cardinality(q.gaps), 2) AS i
                                                          WHERE e.global_sequence BETWEEN q.gaps[i] AND q.gaps[i + 1]))
                     ORDER BY e.global_sequence LIMIT room - cardinality(taken));
            ELSE
                these := ARRAY(
                    SELECT e.global_sequence FROM headwater_private.events_in(take_open.namespace_id, low, high, low_of) e
                     WHERE NOT EXISTS (SELECT FROM generate_series(1, cardinality(q.gaps), 2) AS i
                                        WHERE e.global_sequence BETWEEN q.gaps[i] AND q.gaps[i + 1])
                     ORDER BY e.global_sequence LIMIT room - cardinality(taken));
            END IF;
        END IF;
        IF cardinality(taken) = 0 THEN
            of_types := low_of;
        ELSE
            broken := broken OR low <> at OR NOT (of_types <@ low_of AND low_of <@ of_types);
            listed := listed OR broken AND cardinality(these) > 0;
        END IF;
        taken := taken || these;
        at := CASE WHEN cardinality(taken) >= room THEN taken[room] ELSE high END + 1;
        scanned := scanned + at - low;
        -- Most of the requested events are enough, as in take_new.
        EXIT WHEN cardinality(taken) >= least(room, greatest(room - room / 4, 32)) OR cardinality(taken) > 0 AND scanned >= enough;
        IF NOT asked AND cardinality(taken) = 0 THEN
            -- There is nothing near. If the namespace has a type index, the index tells what comes
            -- next.
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
        size := least(greatest(4 * size, 200), 50000);
    END LOOP;
    IF only_one THEN
        q.open := CASE WHEN (q.open[1]).last_sequence >= at
                       THEN ARRAY[ROW(greatest((q.open[1]).first_sequence, at), (q.open[1]).last_sequence,
                                      (q.open[1]).event_type)::headwater_private.open_range]
                       ELSE '{}' END;
        RETURN;
    END IF;
    q.open := ARRAY(
        SELECT ROW(CASE WHEN w.wanted THEN greatest(o.first_sequence, at) ELSE o.first_sequence END, o.last_sequence,
                   o.event_type)::headwater_private.open_range
          FROM unnest(q.open) o
         CROSS JOIN LATERAL (SELECT types IS NULL AND likes IS NULL
                                    OR CASE WHEN likes IS NULL THEN o.event_type = ANY (types) ELSE o.event_type LIKE ANY (likes) END AS wanted) w
         WHERE NOT w.wanted OR o.last_sequence >= at);
END
$$;
