-- headwater_private.claimed_sequences(namespace_id, first_sequence, last_sequence, sequences, event_types)
-- The events that a claim still has, ascending: those listed, or all in the range of these types.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.claimed_sequences(
    namespace_id int, first_sequence bigint, last_sequence bigint, sequences bigint[], event_types text[]
) RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT coalesce(claimed_sequences.sequences, ARRAY(
        SELECT e.global_sequence
          FROM headwater_private.log_bounds(claimed_sequences.namespace_id, claimed_sequences.first_sequence - 1, claimed_sequences.last_sequence, NULL) b
         CROSS JOIN LATERAL (
            SELECT e.global_sequence FROM headwater_private.events e
             WHERE e.namespace_id = claimed_sequences.namespace_id
               AND e.global_sequence BETWEEN claimed_sequences.first_sequence AND claimed_sequences.last_sequence
               AND e.recorded_at >= b.from_at AND e.recorded_at < b.until_at
               AND (claimed_sequences.event_types IS NULL OR e.event_type = ANY (claimed_sequences.event_types))
             ORDER BY e.global_sequence) e)));
END
$$;
