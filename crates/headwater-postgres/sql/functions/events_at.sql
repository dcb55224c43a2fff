-- headwater_private.events_at(namespace_id, sequences)
-- The events with these sequences, in order, as this snapshot shows them. Opens only the months that may have one of them.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.events_at(namespace_id int, sequences bigint[])
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_sort = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- One lookup per event, in the index of sequences, whatever is known of the table: other plans may read all of the namespace. (With `=`, the
    -- order would mean nothing, and another index that begins with the namespace might be used.)
    one    constant text := 'SELECT e.* FROM unnest($2) AS s(sequence)
                              CROSS JOIN LATERAL (SELECT e.* FROM headwater_private.%I e
                                                   WHERE e.namespace_id = $1 AND e.global_sequence >= s.sequence AND e.global_sequence <= s.sequence
                                                     AND e.recorded_at >= %s
                                                   ORDER BY e.global_sequence LIMIT 1) e
                              WHERE s.sequence BETWEEN %s AND %s';
    ns     headwater_private.namespaces;
    months text;
    sealed bigint;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = events_at.namespace_id;
    SELECT string_agg(format(one, m.leaf, '''-infinity''', m.first_sequence, m.last_sequence), ' UNION ALL ' ORDER BY m.starts_at) INTO months
      FROM headwater_private.months m
     WHERE m.namespace_id = ns.namespace_id AND m.trimmed_at IS NULL
       AND EXISTS (SELECT FROM unnest(events_at.sequences) AS s(sequence) WHERE s.sequence BETWEEN m.first_sequence AND m.last_sequence);
    -- All up to here lie in sealed months.
    SELECT m.complete_to INTO sealed FROM headwater_private.months m
     WHERE m.namespace_id = ns.namespace_id ORDER BY m.starts_at DESC LIMIT 1;
    IF EXISTS (SELECT FROM unnest(events_at.sequences) AS s(sequence) WHERE s.sequence > coalesce(sealed, 0)) THEN
        months := concat_ws(' UNION ALL ', months, format(one, headwater_private.log_table(ns), '$3', coalesce(sealed, 0) + 1, '9223372036854775807'));
    END IF;
    IF months IS NOT NULL THEN
        RETURN QUERY EXECUTE 'SELECT e.* FROM (' || months || ') e ORDER BY e.global_sequence'
            USING events_at.namespace_id, events_at.sequences, ns.tail_from;
    END IF;
END
$$;
