-- headwater_private.claimed_events(namespace_id, first_sequence, last_sequence, types, sequences)
-- Returns the events of a claim or retry, in order: those in `sequences` if that is not NULL.
-- Otherwise it returns all events in the range, only of `types` if that is not NULL.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.claimed_events(
    namespace_id int, first_sequence bigint, last_sequence bigint, types text[], sequences bigint[]
) RETURNS SETOF headwater_private.events
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tail_from timestamptz;
BEGIN
    SELECT n.tail_from INTO tail_from FROM headwater_private.namespaces n
     WHERE n.namespace_id = claimed_events.namespace_id AND n.storage = 'shared' AND n.tail_after < claimed_events.first_sequence;
    IF NOT FOUND THEN
        IF claimed_events.sequences IS NOT NULL THEN
            RETURN QUERY SELECT e.* FROM headwater_private.events_at(claimed_events.namespace_id, claimed_events.sequences) e;
        ELSE
            RETURN QUERY SELECT e.* FROM headwater_private.events_in(claimed_events.namespace_id, claimed_events.first_sequence,
                                                                     claimed_events.last_sequence, claimed_events.types) e;
        END IF;
    ELSIF claimed_events.sequences IS NOT NULL THEN
        RETURN QUERY SELECT e.* FROM headwater_private.events e
                      WHERE e.namespace_id = claimed_events.namespace_id AND e.global_sequence = ANY (claimed_events.sequences)
                        AND e.recorded_at >= tail_from
                      ORDER BY e.global_sequence;
    ELSE
        RETURN QUERY SELECT e.* FROM headwater_private.events e
                      WHERE e.namespace_id = claimed_events.namespace_id
                        AND e.global_sequence BETWEEN claimed_events.first_sequence AND claimed_events.last_sequence
                        AND e.recorded_at >= tail_from
                        AND (claimed_events.types IS NULL OR e.event_type = ANY (claimed_events.types))
                      ORDER BY e.global_sequence;
    END IF;
END
$$;
