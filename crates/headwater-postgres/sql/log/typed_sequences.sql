-- headwater_private.typed_sequences(namespace_id, ranges, max_events, backwards, gaps)
-- Returns the first max_events (NULL: all) sequences of events that lie in ranges of the log, each
-- range for one type, and in none of `gaps` (first, last, first, last, …). It reads the type index,
-- as this snapshot shows it, in order. With `backwards` it returns the last ones, highest first.
-- The index shows which events exist; only the horizon tells that no others will come. It reads at
-- most max_events entries per range, and a few more where months were trimmed.
-- The caller has called has_index in the same snapshot: in a function that is STABLE, or in the
-- same statement.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.typed_sequences(
    namespace_id int, ranges headwater_private.open_range[], max_events bigint, backwards boolean DEFAULT false, gaps bigint[] DEFAULT '{}'
) RETURNS bigint[] LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found   bigint[] := '{}';
    page    bigint[];
    kept    bigint;
    checked bigint;
    low     bigint;
    high    bigint := 9223372036854775807;
BEGIN
    -- Trimmed events leave the index a little later. All events at or below `kept` are trimmed. Up
    -- to `checked`, where two months meet, some may be.
    SELECT n.trimmed_to, coalesce((SELECT m.high_sequence FROM headwater_private.months m
                                    WHERE m.namespace_id = n.namespace_id AND m.trimmed_at IS NOT NULL ORDER BY m.starts_at DESC LIMIT 1), 0)
      INTO kept, checked
      FROM headwater_private.namespaces n WHERE n.namespace_id = typed_sequences.namespace_id;
    low := kept + 1;
    LOOP
        IF backwards THEN
            page := ARRAY(
                SELECT s.global_sequence FROM unnest(ranges) r
                 CROSS JOIN LATERAL (SELECT i.global_sequence FROM headwater_private.type_index i
                                      WHERE i.namespace_id = typed_sequences.namespace_id AND i.event_type = r.event_type
                                        AND i.global_sequence >= greatest(r.first_sequence, low) AND i.global_sequence <= least(r.last_sequence, high)
                                      ORDER BY i.event_type DESC, i.global_sequence DESC LIMIT max_events - cardinality(found)) s
                 ORDER BY s.global_sequence DESC LIMIT max_events - cardinality(found));
        ELSE
            page := ARRAY(
                SELECT s.global_sequence FROM unnest(ranges) r
                 CROSS JOIN LATERAL (SELECT i.global_sequence FROM headwater_private.type_index i
                                      WHERE i.namespace_id = typed_sequences.namespace_id AND i.event_type = r.event_type
                                        AND i.global_sequence >= greatest(r.first_sequence, low) AND i.global_sequence <= r.last_sequence
                                        AND (gaps = '{}' OR NOT EXISTS (SELECT FROM generate_series(1, cardinality(gaps), 2) AS g
                                                                         WHERE i.global_sequence BETWEEN gaps[g] AND gaps[g + 1]))
                                      ORDER BY i.event_type, i.global_sequence LIMIT max_events - cardinality(found)) s
                 ORDER BY s.global_sequence LIMIT max_events - cardinality(found));
        END IF;
        EXIT WHEN page = '{}';
        IF page[1] > checked AND page[cardinality(page)] > checked THEN
            RETURN found || page;
        END IF;
        found := found || ARRAY(
            SELECT p.sequence FROM unnest(page) WITH ORDINALITY AS p(sequence, place)
             WHERE p.sequence > checked
                OR EXISTS (SELECT FROM headwater_private.events_at(typed_sequences.namespace_id,
                               ARRAY(SELECT s.sequence FROM unnest(page) AS s(sequence) WHERE s.sequence <= checked)) e
                            WHERE e.global_sequence = p.sequence)
             ORDER BY p.place);
        EXIT WHEN max_events IS NULL OR cardinality(found) >= max_events;
        low := CASE WHEN backwards THEN low ELSE page[cardinality(page)] + 1 END;
        high := page[cardinality(page)] - 1;
    END LOOP;
    RETURN found;
END
$$;
