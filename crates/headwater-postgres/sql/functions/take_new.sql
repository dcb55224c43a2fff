-- headwater_private.take_new(namespace, namespace_id, wanted, room, settled, q, first_sequence, last_sequence, sequences)
-- Takes up to `room` events of the wanted types (NULL: all) from behind a queue's frontier, and moves it. A contiguous run needs no proof. At a hole,
-- the horizon is asked, and the log is read again in a new statement: what is missing at or below it never comes, the rest goes
-- into the gaps, and then the events that were taken are listed. What is passed and not wanted goes into the open ranges; one that ends at the
-- frontier grows with it, as long as nothing of its type is taken. All at or below `settled` is settled, says the caller: a range is taken without
-- a look.
-- Answers a range, NULL if nothing was found, and the events if they are not all of the range that are wanted.
-- Raises: WH006. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.take_new(
    namespace text, namespace_id int, wanted text[], room int, settled bigint, INOUT q headwater_private.queue_state,
    OUT first_sequence bigint, OUT last_sequence bigint, OUT sequences bigint[]
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- first and last of each
    most_gaps constant int := 2000;
    size      int := CASE WHEN wanted IS NULL THEN room ELSE least(greatest(4 * room, 200), 10000) END;
    proof     bigint := coalesce(settled, 0);
    page      bigint[];
    types     text[];
    mine      bigint[];
    claimed   text[];
    holes     bigint[];
    taken     bigint[] := '{}';
    listed    boolean := false;
    edge      bigint;
    bounds    record;
BEGIN
    PERFORM headwater_private.require_in_log(take_new.namespace_id, settled) WHERE settled IS NOT NULL;
    IF settled > q.frontier AND wanted IS NULL THEN
        first_sequence := q.frontier + 1;
        last_sequence := least(q.frontier + room, settled);
        q.frontier := last_sequence;
        RETURN;
    END IF;
    FOR pass IN 1 .. 10 LOOP
        SELECT l.* INTO bounds FROM headwater_private.log_bounds(take_new.namespace_id, q.frontier, NULL, size) l;
        SELECT array_agg(e.global_sequence), array_agg(e.event_type) INTO page, types
          FROM (SELECT e.global_sequence, e.event_type FROM headwater_private.events e
                 WHERE e.namespace_id = take_new.namespace_id AND e.global_sequence > q.frontier
                   AND e.recorded_at >= bounds.from_at AND e.recorded_at < bounds.until_at
                 ORDER BY e.global_sequence LIMIT size) e;
        EXIT WHEN page IS NULL;
        holes := '{}';
        IF page[cardinality(page)] <> q.frontier + cardinality(page) AND page[cardinality(page)] > proof THEN
            -- Two statements, in this order: the second sees all that was settled in the first.
            SELECT h.horizon INTO proof FROM headwater.horizon(take_new.namespace) h;
            SELECT array_agg(e.global_sequence), array_agg(e.event_type) INTO page, types
              FROM (SELECT e.global_sequence, e.event_type FROM headwater_private.events e
                     WHERE e.namespace_id = take_new.namespace_id AND e.global_sequence > q.frontier
                       AND e.recorded_at >= bounds.from_at AND e.recorded_at < bounds.until_at
                     ORDER BY e.global_sequence LIMIT size) e;
            EXIT WHEN page IS NULL;
        END IF;
        edge := page[cardinality(page)];
        mine := page;
        IF wanted IS NOT NULL THEN
            mine := ARRAY(SELECT p.sequence FROM unnest(page, types) AS p(sequence, event_type) WHERE p.event_type = ANY (wanted)
                           ORDER BY p.sequence LIMIT room - cardinality(taken));
            IF cardinality(taken) + cardinality(mine) >= room THEN
                edge := mine[cardinality(mine)];
            END IF;
        END IF;
        IF edge > proof AND page[cardinality(page)] <> q.frontier + cardinality(page) THEN
            holes := ARRAY(
                SELECT v.sequence
                  FROM (SELECT greatest(lag(p.sequence, 1, q.frontier) OVER (ORDER BY p.sequence), proof) + 1 AS first,
                               p.sequence - 1 AS last
                          FROM unnest(page) AS p(sequence) WHERE p.sequence <= edge) h
                 CROSS JOIN LATERAL (VALUES (h.first), (h.last)) AS v(sequence)
                 WHERE h.first <= h.last ORDER BY v.sequence);
            IF cardinality(q.gaps) + cardinality(holes) > most_gaps THEN
                -- Enough gaps to look into: what lies above waits until some are closed.
                edge := proof;
                EXIT WHEN edge <= q.frontier;
                holes := '{}';
                mine := ARRAY(SELECT m.sequence FROM unnest(mine) AS m(sequence) WHERE m.sequence <= edge);
            END IF;
        END IF;
        IF wanted IS NOT NULL OR q.open <> '{}' THEN
            claimed := ARRAY(SELECT DISTINCT p.event_type FROM unnest(page, types) AS p(sequence, event_type)
                              WHERE p.sequence <= edge AND (wanted IS NULL OR p.event_type = ANY (wanted)));
            q.open := ARRAY(
                SELECT ROW(o.first_sequence, CASE WHEN o.last_sequence = q.frontier AND o.event_type <> ALL (claimed) THEN edge
                                                  ELSE o.last_sequence END, o.event_type)::headwater_private.open_range
                  FROM unnest(q.open) o
                 UNION ALL
                SELECT DISTINCT ROW(q.frontier + 1, edge, p.event_type)::headwater_private.open_range
                  FROM unnest(page, types) AS p(sequence, event_type)
                 WHERE p.sequence <= edge AND p.event_type <> ALL (wanted)
                   AND NOT EXISTS (SELECT FROM unnest(q.open) o WHERE o.last_sequence = q.frontier AND o.event_type = p.event_type));
        END IF;
        listed := listed OR holes <> '{}';
        q.gaps := q.gaps || holes;
        q.frontier := edge;
        taken := taken || mine;
        EXIT WHEN wanted IS NULL OR cardinality(taken) >= room OR cardinality(page) < size;
        -- Where what is wanted is rare, most of the log lies between.
        size := least(4 * size, 10000);
    END LOOP;
    first_sequence := taken[1];
    last_sequence := taken[cardinality(taken)];
    IF listed THEN
        sequences := taken;
    END IF;
END
$$;
