-- headwater_private.check_sequences(namespace_id, sequences, pairs)
-- Refuses a list of sequences that is not in order, begins below 1, or goes beyond the head of the
-- log. With `pairs`, the list holds ranges: first, last, first, last.
-- Compares by subscripts: a window function over the elements takes three times as long. A list
-- with a NULL is refused before that, because each subscript would walk over its bitmap.
-- Raises: WH002, WH016. Locks: as require_in_log. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_sequences(namespace_id int, sequences bigint[], pairs boolean)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF sequences = '{}' THEN
        RETURN;
    END IF;
    IF (array_ndims(sequences) = 1 AND array_lower(sequences, 1) = 1 AND array_position(sequences, NULL) IS NULL
        AND sequences[1] >= 1 AND NOT (pairs AND cardinality(sequences) % 2 = 1)
        AND CASE WHEN pairs
            THEN NOT EXISTS (SELECT FROM generate_series(1, cardinality(sequences), 2) AS i
                              WHERE sequences[i] > sequences[i + 1]
                                 OR i + 2 < cardinality(sequences) AND sequences[i + 1] >= sequences[i + 2])
            ELSE NOT EXISTS (SELECT FROM generate_series(1, cardinality(sequences) - 1) AS i
                              WHERE sequences[i] >= sequences[i + 1])
            END) IS NOT TRUE
    THEN
        PERFORM headwater_private.require_in_log(namespace_id, min(u.sequence)),
                headwater_private.require_in_log(namespace_id, max(u.sequence))
           FROM unnest(sequences) AS u(sequence);
        PERFORM headwater_private.fail('WH002', format('invalid sequences %s', left(coalesce(sequences::text, 'NULL'), 80)),
            jsonb_build_object('what', 'sequences', 'value', left(sequences::text, 80)), 'give them in order, from 1 on, each once');
    END IF;
    PERFORM headwater_private.require_in_log(namespace_id, sequences[cardinality(sequences)]);
END
$$;
