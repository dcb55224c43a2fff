-- headwater_private.check_sequences(namespace_id, sequences, pairs)
-- Refuses a list of sequences that is not in order, begins below 1, or goes beyond the head of the log; with pairs, a list of ranges: first, last, first, last.
-- Raises: WH002, WH016. Locks: as require_in_log. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_sequences(namespace_id int, sequences bigint[], pairs boolean)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF sequences = '{}' THEN
        RETURN;
    END IF;
    PERFORM headwater_private.require_in_log(namespace_id, min(u.sequence)), headwater_private.require_in_log(namespace_id, max(u.sequence))
       FROM unnest(sequences) AS u(sequence);
    IF sequences IS NULL OR array_ndims(sequences) <> 1 OR array_lower(sequences, 1) <> 1 OR pairs AND cardinality(sequences) % 2 = 1
       OR EXISTS (SELECT FROM (SELECT u.sequence, u.place, lag(u.sequence, 1, 0::bigint) OVER (ORDER BY u.place) AS before
                                 FROM unnest(sequences) WITH ORDINALITY AS u(sequence, place)) o
                   WHERE (o.sequence > o.before OR pairs AND o.place % 2 = 0 AND o.sequence = o.before) IS NOT TRUE) THEN
        PERFORM headwater_private.fail('WH002', format('invalid sequences %s', left(coalesce(sequences::text, 'NULL'), 80)),
            jsonb_build_object('what', 'sequences', 'value', left(sequences::text, 80)), 'give them in order, from 1 on, each once');
    END IF;
END
$$;
