-- headwater.claimed_events(namespace_id, first_sequence, last_sequence, types, sequences)
-- The events of a claim, as headwater.claim_ranges answered it. Once that is committed, nobody waits while they are read.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.claimed_events(
    namespace_id int, first_sequence bigint, last_sequence bigint, types text[], sequences bigint[],
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    from_at  timestamptz;
    until_at timestamptz := 'infinity';
BEGIN
    IF NOT headwater_private.authorize(claimed_events.namespace_id, caller, 'consumer') THEN
        RETURN;
    END IF;
    SELECT n.tail_from INTO from_at FROM headwater_private.namespaces n
     WHERE n.namespace_id = claimed_events.namespace_id AND n.tail_after < claimed_events.first_sequence;
    IF from_at IS NULL THEN
        SELECT l.from_at, l.until_at INTO from_at, until_at
          FROM headwater_private.log_bounds(claimed_events.namespace_id, claimed_events.first_sequence - 1, claimed_events.last_sequence, NULL) l;
    END IF;
    IF claimed_events.sequences IS NOT NULL THEN
        RETURN QUERY SELECT e.* FROM headwater_private.events e
                      WHERE e.namespace_id = claimed_events.namespace_id AND e.global_sequence = ANY (claimed_events.sequences)
                        AND e.recorded_at >= from_at AND e.recorded_at < until_at
                      ORDER BY e.global_sequence;
    ELSE
        RETURN QUERY SELECT e.* FROM headwater_private.events e
                      WHERE e.namespace_id = claimed_events.namespace_id
                        AND e.global_sequence BETWEEN claimed_events.first_sequence AND claimed_events.last_sequence
                        AND e.recorded_at >= from_at AND e.recorded_at < until_at
                        AND (claimed_events.types IS NULL OR e.event_type = ANY (claimed_events.types))
                      ORDER BY e.global_sequence;
    END IF;
END
$$;
