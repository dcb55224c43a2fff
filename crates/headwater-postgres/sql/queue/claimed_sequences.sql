-- headwater_private.claimed_sequences(namespace_id, first_sequence, last_sequence, sequences,
-- event_types)
-- Returns the sequences of the events that a claim still has, ascending: those in `sequences` if
-- that is not NULL. Otherwise it returns all events of these types in the range (NULL: all types).
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.claimed_sequences(
    namespace_id int, first_sequence bigint, last_sequence bigint, sequences bigint[], event_types text[]
) RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT coalesce(claimed_sequences.sequences, ARRAY(
        SELECT e.global_sequence
          FROM headwater_private.claimed_events(claimed_sequences.namespace_id, claimed_sequences.first_sequence, claimed_sequences.last_sequence,
                                                claimed_sequences.event_types, NULL) e)));
END
$$;
