-- headwater_private.take_new(namespace, namespace_id, tail_after, tail_from, types, likes, keeps,
-- room, prove, max_scan, q, first_sequence, last_sequence, taken, of_types, listed, one_table,
-- more)
-- Takes up to `room` events after a queue's frontier, and moves the frontier. It takes events of
-- `types`, or of types like one of `likes` if that is not NULL. Both NULL: of all types.
-- A run without a hole needs no proof. If a hole comes next, or at any hole if `prove`, the horizon
-- is read, and then the log is read again in a new statement. What is missing at or below the
-- horizon will never come. What is missing above it goes into the gaps, and then the events that
-- were taken are listed.
-- Events that are passed and not wanted go into the open ranges if their type is among `keeps`, in
-- which * stands for any characters (NULL: all types). All other events that are passed are
-- settled, because the queue does not take them. An open range that ends at the frontier grows with
-- it, as long as no event of its type is taken.
-- It looks on until one of these holds: there is hardly any room left; something was found and
-- thousands of events were looked at; the log ends; max_scan events were looked at (NULL: no
-- limit). Each look is bounded.
-- Returns the range of the events that were taken, from first_sequence to last_sequence (NULL:
-- nothing was found), and more about it:
--   taken      the events; NULL if they are all events in the range
--   of_types   if not `listed`: they are all events of these types in the range (NULL: of all
--              types)
--   one_table  they are all in one table
--   more       max_scan events were looked at, and nothing was found
--   q          also records how far the next claims need not look
-- Raises: WH006. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.take_new(
    namespace text, namespace_id int, tail_after bigint, tail_from timestamptz, types text[], likes text[], keeps text[], room int, prove boolean, max_scan bigint, INOUT q headwater_private.queue_state,
    OUT first_sequence bigint, OUT last_sequence bigint, OUT taken bigint[], OUT of_types text[], OUT listed boolean, OUT one_table boolean, OUT more boolean
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Two numbers per gap: its first and its last sequence.
    most_gaps constant int := 2000;
    most      constant bigint := 10000;
    -- Most of the requested events. Another look would cost more than it brings.
    enough    constant int := least(room, greatest(room - room / 4, 32));
    any_type  constant boolean := types IS NULL AND likes IS NULL;
    -- How many events a look reads.
    size      bigint := room;
    proof     bigint := 0;
    scanned   bigint := 0;
    seen      record;
    high      bigint;
    edge      bigint;
    -- The types whose open ranges grow with the frontier, and these together with the wanted types.
    -- A look finds out which other types there are.
    growing   text[];
    expected  text[];
    passed    text[];
    claimed   text[];
    -- Whether nothing was passed, in this look and in all looks.
    whole     boolean;
    all_mine  boolean := true;
    -- Whether the type index was read.
    asked     boolean := any_type;
    jump      record;
    -- Whether a look has reached a hole, or the end of the log.
    at_end    boolean;
    page      bigint[];
    page_of   text[];
    mine      bigint[];
    holes     bigint[];
BEGIN
    listed := false;
    one_table := false;
    more := false;
    IF any_type AND q.frontier >= tail_after THEN
        -- Look further than requested, so that the next claims need no look.
        seen := headwater_private.run_ahead(take_new.namespace_id, q.frontier, greatest(room, least(greatest(16 * room::bigint, 64), 2000))::int, tail_from);
        IF seen.known IS NOT NULL AND NOT (prove AND seen.hole AND seen.known < q.frontier + room) THEN
            first_sequence := q.frontier + 1;
            last_sequence := least(q.frontier + room, seen.known);
            one_table := seen.one_table;
            -- Claims use `known` only to read from one table.
            q.known := CASE WHEN one_table THEN seen.known ELSE last_sequence END;
            q.known_of := NULL;
            q.frontier := last_sequence;
            RETURN;
        ELSIF seen.hole IS NULL THEN
            -- The log ends here.
            RETURN;
        END IF;
    ELSIF likes IS NULL AND q.known_of <@ types AND cardinality(types) <= 20 AND q.known >= q.frontier AND q.open = '{}' AND q.frontier >= tail_after THEN
        -- Up to here, all events were wanted. If the log continues like this, the next claims need
        -- no look. (Open ranges would have to grow with each of these claims.)
        edge := headwater_private.run_of_types(take_new.namespace_id, q.frontier, least(greatest(16 * room::bigint, 64), 2000)::int, types);
        IF edge >= q.frontier + room THEN
            first_sequence := q.frontier + 1;
            last_sequence := q.frontier + room;
            one_table := true;
            q.known := edge;
            q.known_of := types;
            q.frontier := last_sequence;
            RETURN;
        END IF;
    END IF;
    taken := '{}';
    of_types := '{}';
    LOOP
        holes := NULL;
        IF q.frontier < tail_after THEN
            -- Past months, and namespaces with storage of their own, are read page by page.
            IF NOT any_type THEN
                size := greatest(size, least(greatest(4 * room::bigint, 200), most));
            END IF;
            holes := '{}';
            SELECT array_agg(e.global_sequence), array_agg(e.event_type) INTO page, page_of
              FROM headwater_private.events_in(take_new.namespace_id, q.frontier + 1, NULL, NULL, size::int) e;
            EXIT WHEN page IS NULL;
            IF page[cardinality(page)] <> q.frontier + cardinality(page) AND page[cardinality(page)] > proof THEN
                -- Two statements, in this order: the second shows everything that committed before
                -- the horizon was read.
                SELECT h.horizon INTO proof FROM headwater_private.horizon_of(take_new.namespace_id) h;
                SELECT array_agg(e.global_sequence), array_agg(e.event_type) INTO page, page_of
                  FROM headwater_private.events_in(take_new.namespace_id, q.frontier + 1, NULL, NULL, size::int) e;
                EXIT WHEN page IS NULL;
            END IF;
        ELSIF any_type THEN
            -- The next sequence is a hole, or the log ends here.
            holes := '{}';
            high := NULL;
        ELSE
            IF likes IS NULL AND cardinality(q.open) <= 1 THEN
                growing := CASE WHEN (q.open[1]).last_sequence = q.frontier THEN ARRAY[(q.open[1]).event_type] ELSE '{}' END;
            ELSE
                growing := ARRAY(SELECT o.event_type FROM unnest(q.open) o
                                  WHERE o.last_sequence = q.frontier
                                    AND NOT CASE WHEN likes IS NULL THEN o.event_type = ANY (types) ELSE o.event_type LIKE ANY (likes) END);
            END IF;
            -- NULL: nobody needs to know which other types there are.
            expected := CASE WHEN likes IS NOT NULL THEN growing WHEN keeps = '{}' THEN NULL ELSE types || growing END;
            IF scanned = 0 THEN
                size := least(greatest(2 * room::bigint, 64), most);
            END IF;
            high := q.frontier + size;
            at_end := false;
            LOOP
                seen := headwater_private.scan_log(take_new.namespace_id, q.frontier, high - q.frontier, tail_from, types, likes, expected);
                EXIT WHEN seen.highest IS NULL OR seen.highest = q.frontier + seen.looked;
                IF prove OR seen.highest <= proof THEN
                    holes := '{}';
                    EXIT;
                END IF;
                -- Look only at what comes before the hole.
                at_end := true;
                high := (headwater_private.run_ahead(take_new.namespace_id, q.frontier, seen.looked::int, tail_from)).known;
                IF high IS NULL THEN
                    holes := '{}';
                    EXIT;
                END IF;
            END LOOP;
            EXIT WHEN seen.highest IS NULL;
            IF holes IS NULL THEN
                at_end := at_end OR seen.highest < high;
                mine := seen.taken;
                edge := seen.highest;
                IF cardinality(taken) + cardinality(mine) >= room THEN
                    mine := mine[1:room - cardinality(taken)];
                    edge := mine[cardinality(mine)];
                END IF;
                whole := cardinality(mine) = edge - q.frontier;
                claimed := types;
                passed := NULL;
                IF seen.others IS NOT NULL AND edge < seen.highest AND NOT whole THEN
                    -- Only the types that are passed, not those that come after them.
                    seen.others := (headwater_private.scan_log(take_new.namespace_id, q.frontier, edge - q.frontier, tail_from, types, likes,
                                                               expected)).others;
                END IF;
                IF seen.others IS NOT NULL THEN
                    SELECT CASE WHEN likes IS NULL THEN types ELSE array_agg(DISTINCT o.event_type) FILTER (WHERE o.event_type LIKE ANY (likes)) END,
                           array_agg(DISTINCT o.event_type) FILTER (WHERE likes IS NULL OR o.event_type NOT LIKE ALL (likes))
                      INTO claimed, passed
                      FROM unnest(seen.others) AS o(event_type);
                    IF whole THEN
                        passed := NULL;
                    END IF;
                END IF;
                one_table := seen.one_table AND cardinality(taken) = 0;
            ELSE
                high := seen.highest;
            END IF;
        END IF;

        IF holes IS NOT NULL THEN
            IF q.frontier >= tail_after THEN
                IF NOT any_type THEN
                    size := greatest(size, least(greatest(4 * room::bigint, 200), most));
                END IF;
                IF (high <= proof) IS NOT TRUE THEN
                    high := 9223372036854775807;
                    SELECT e.global_sequence INTO edge FROM headwater_private.events e
                     WHERE e.namespace_id = take_new.namespace_id AND e.global_sequence > q.frontier AND e.recorded_at >= tail_from
                     ORDER BY e.global_sequence LIMIT 1;
                    EXIT WHEN edge IS NULL;
                    SELECT h.horizon INTO proof FROM headwater_private.horizon_of(take_new.namespace_id) h;
                END IF;
                -- This statement comes after the horizon was read, so it shows everything that
                -- committed before.
                SELECT array_agg(e.global_sequence), array_agg(e.event_type) INTO page, page_of
                  FROM (SELECT e.global_sequence, e.event_type FROM headwater_private.events e
                         WHERE e.namespace_id = take_new.namespace_id AND e.global_sequence > q.frontier AND e.global_sequence <= high
                           AND e.recorded_at >= tail_from
                         ORDER BY e.global_sequence LIMIT size) e;
                EXIT WHEN page IS NULL;
            END IF;
            at_end := cardinality(page) < size;
            one_table := false;
            edge := page[cardinality(page)];
            mine := page;
            IF NOT any_type THEN
                mine := ARRAY(SELECT p.sequence FROM unnest(page, page_of) AS p(sequence, event_type)
                               WHERE CASE WHEN likes IS NULL THEN p.event_type = ANY (types) ELSE p.event_type LIKE ANY (likes) END
                               ORDER BY p.sequence LIMIT room - cardinality(taken));
                IF cardinality(taken) + cardinality(mine) >= room THEN
                    edge := mine[cardinality(mine)];
                END IF;
            END IF;
            IF edge > proof THEN
                holes := ARRAY(
                    SELECT v.sequence
                      FROM (SELECT greatest(lag(p.sequence, 1, q.frontier) OVER (ORDER BY p.sequence), proof) + 1 AS first,
                                   p.sequence - 1 AS last
                              FROM unnest(page) AS p(sequence) WHERE p.sequence <= edge) h
                     CROSS JOIN LATERAL (VALUES (h.first), (h.last)) AS v(sequence)
                     WHERE h.first <= h.last ORDER BY v.sequence);
                IF cardinality(q.gaps) + cardinality(holes) > most_gaps THEN
                    -- These are enough gaps to check. What lies above waits until some of them are
                    -- closed.
                    edge := proof;
                    EXIT WHEN edge <= q.frontier;
                    holes := '{}';
                    mine := ARRAY(SELECT m.sequence FROM unnest(mine) AS m(sequence) WHERE m.sequence <= edge);
                END IF;
            END IF;
            IF NOT any_type THEN
                SELECT array_agg(DISTINCT p.event_type) FILTER (WHERE w.wanted), array_agg(DISTINCT p.event_type) FILTER (WHERE NOT w.wanted)
                  INTO claimed, passed
                  FROM unnest(page, page_of) AS p(sequence, event_type)
                 CROSS JOIN LATERAL (SELECT CASE WHEN likes IS NULL THEN p.event_type = ANY (types) ELSE p.event_type LIKE ANY (likes) END AS wanted) w
                 WHERE p.sequence <= edge;
            END IF;
            whole := passed IS NULL;
            listed := listed OR cardinality(holes) > 0;
            q.gaps := q.gaps || holes;
        END IF;

        passed := headwater_private.types_taken(passed, keeps);
        IF passed IS NOT NULL OR cardinality(q.open) > 0 AND NOT any_type THEN
            IF passed IS NULL AND cardinality(q.open) = 1 AND (q.open[1]).last_sequence = q.frontier
               AND likes IS NULL AND (q.open[1]).event_type <> ALL (types) THEN
                -- Usually the events that are passed have the same types as before.
                q.open := ARRAY[ROW((q.open[1]).first_sequence, edge, (q.open[1]).event_type)::headwater_private.open_range];
            ELSE
                q.open := ARRAY(
                    SELECT ROW(o.first_sequence, CASE WHEN o.last_sequence = q.frontier
                                                      AND NOT CASE WHEN likes IS NULL THEN o.event_type = ANY (types)
                                                                   ELSE o.event_type LIKE ANY (likes) END
                                                 THEN edge ELSE o.last_sequence END, o.event_type)::headwater_private.open_range
                      FROM unnest(q.open) o
                     UNION ALL
                    SELECT ROW(q.frontier + 1, edge, p.event_type)::headwater_private.open_range
                      FROM unnest(passed) AS p(event_type)
                     WHERE NOT EXISTS (SELECT FROM unnest(q.open) o WHERE o.last_sequence = q.frontier AND o.event_type = p.event_type));
            END IF;
        END IF;
        all_mine := all_mine AND whole;
        IF cardinality(mine) > 0 THEN
            of_types := of_types || claimed;
            taken := taken || mine;
        END IF;
        scanned := scanned + edge - q.frontier;
        q.frontier := edge;
        EXIT WHEN any_type OR cardinality(taken) >= enough OR cardinality(taken) > 0 AND (scanned >= most OR at_end);
        IF NOT asked AND cardinality(taken) = 0 AND scanned >= 200
           AND EXISTS (SELECT FROM headwater_private.namespaces n WHERE n.namespace_id = take_new.namespace_id AND n.index <> 'none') THEN
            -- There is nothing near. If the namespace has a type index, the index tells what comes
            -- next.
            asked := true;
            jump := headwater_private.take_indexed(take_new.namespace, take_new.namespace_id, types, likes, keeps, room, q);
            q := jump.q;
            IF cardinality(jump.taken) > 0 THEN
                taken := jump.taken;
                of_types := jump.of_types;
                listed := true;
                one_table := false;
                all_mine := false;
                EXIT;
            END IF;
        END IF;
        IF scanned >= max_scan THEN
            more := cardinality(taken) = 0;
            EXIT;
        END IF;
        -- As many events as should hold the rest, if the log continues like this. If nothing was
        -- found so far, most of the log may lie in between.
        size := CASE WHEN cardinality(taken) = 0 THEN least(greatest(4 * size, 200), 50000)
                     ELSE least(greatest((room - cardinality(taken)) * scanned / cardinality(taken), 64), 50000) END;
    END LOOP;
    IF any_type OR all_mine THEN
        of_types := NULL;
    END IF;
    first_sequence := taken[1];
    last_sequence := taken[cardinality(taken)];
END
$$;
