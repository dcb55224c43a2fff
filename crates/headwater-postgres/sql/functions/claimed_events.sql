-- headwater.claimed_events(namespace_id, first_sequence, last_sequence, types, sequences)
-- The events of a claim, as headwater.claim_ranges answered it, for who has committed it: nobody else waits while they are read.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.claimed_events(
    namespace_id int, first_sequence bigint, last_sequence bigint, types text[], sequences bigint[]
) RETURNS SETOF headwater.events
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF claimed_events.sequences IS NOT NULL THEN
        RETURN QUERY SELECT e.* FROM headwater.events e
                      WHERE e.namespace_id = claimed_events.namespace_id AND e.global_sequence = ANY (claimed_events.sequences)
                      ORDER BY e.global_sequence;
    ELSIF claimed_events.types IS NOT NULL THEN
        RETURN QUERY SELECT e.* FROM headwater.events e
                      WHERE e.namespace_id = claimed_events.namespace_id AND e.event_type = ANY (claimed_events.types)
                        AND e.global_sequence BETWEEN claimed_events.first_sequence AND claimed_events.last_sequence
                      ORDER BY e.global_sequence;
    ELSE
        RETURN QUERY SELECT e.* FROM headwater.events e
                      WHERE e.namespace_id = claimed_events.namespace_id
                        AND e.global_sequence BETWEEN claimed_events.first_sequence AND claimed_events.last_sequence
                      ORDER BY e.global_sequence;
    END IF;
END
$$;
