-- headwater_private.take_open(namespace_id, wanted, room, q, taken)
-- Takes up to `room` events of the wanted types (NULL: all) out of a queue's open ranges. What lies in a gap is left to close_gaps, also if
-- it has appeared meanwhile. Looks at no more than 100,000 sequences of a range.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.take_open(namespace_id int, wanted text[], room int, INOUT q headwater_private.queue_state, OUT taken bigint[])
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o      headwater_private.open_range;
    rest   headwater_private.open_range[] := '{}';
    part   bigint[];
    edge   bigint;
    bounds record;
BEGIN
    taken := '{}';
    FOREACH o IN ARRAY q.open LOOP
        IF cardinality(taken) < room AND (wanted IS NULL OR o.event_type = ANY (wanted)) THEN
            edge := least(o.last_sequence, o.first_sequence + 99999);
            SELECT l.* INTO bounds FROM headwater_private.log_bounds(take_open.namespace_id, o.first_sequence - 1, edge, NULL) l;
            part := ARRAY(
                SELECT e.global_sequence FROM headwater_private.events e
                 WHERE e.namespace_id = take_open.namespace_id AND e.global_sequence BETWEEN o.first_sequence AND edge
                   AND e.recorded_at >= bounds.from_at AND e.recorded_at < bounds.until_at AND e.event_type = o.event_type
                   AND NOT EXISTS (SELECT FROM generate_series(1, cardinality(q.gaps), 2) AS i
                                    WHERE e.global_sequence BETWEEN q.gaps[i] AND q.gaps[i + 1])
                 ORDER BY e.global_sequence LIMIT room - cardinality(taken));
            taken := taken || part;
            IF cardinality(taken) >= room THEN
                edge := part[cardinality(part)];
            END IF;
            o.first_sequence := edge + 1;
        END IF;
        IF o.first_sequence <= o.last_sequence THEN
            rest := rest || o;
        END IF;
    END LOOP;
    q.open := headwater_private.merge_open(rest);
    taken := ARRAY(SELECT t.sequence FROM unnest(taken) AS t(sequence) ORDER BY t.sequence);
END
$$;
