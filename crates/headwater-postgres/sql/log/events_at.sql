-- headwater_private.events_at(namespace_id, sequences)
-- Returns the events with these sequences, in order, as this snapshot shows them. Opens only the
-- months that may hold one of them.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.events_at(namespace_id int, sequences bigint[])
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_sort = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- One lookup per event in the index of sequences, whatever the statistics of the table say:
    -- other plans may read everything in between. (With `=`, the order would mean nothing, and
    -- PostgreSQL might use another index that begins with the namespace.)
    query CONSTANT text :=
        'SELECT e.* FROM (SELECT DISTINCT s.sequence FROM unnest($10) AS s(sequence) WHERE s.sequence BETWEEN $2 AND $3 ORDER BY 1) s
          CROSS JOIN LATERAL (SELECT e.* FROM %s e
                               WHERE %s AND e.namespace_id = $1 AND e.global_sequence >= s.sequence AND e.global_sequence <= s.sequence
                                 AND e.recorded_at >= $5 AND e.recorded_at < $6
                               ORDER BY e.global_sequence LIMIT 1) e
          LIMIT $4';
    range  record;
    bounds record;
    one    record;
BEGIN
    SELECT min(s.sequence) AS first, max(s.sequence) AS last INTO range FROM unnest(events_at.sequences) AS s(sequence);
    SELECT l.* INTO bounds FROM headwater_private.log_bounds(events_at.namespace_id, range.first - 1, range.last, NULL) l;
    one := headwater_private.only_table(events_at.namespace_id, range.first, range.last, bounds.from_at, bounds.until_at);
    IF one.name IS NOT NULL THEN
        RETURN QUERY EXECUTE format(query, one.name, one.condition)
            USING events_at.namespace_id, range.first, range.last, NULL::bigint, bounds.from_at, bounds.until_at, NULL, NULL, NULL, events_at.sequences;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events, query, events_at.namespace_id, range.first, range.last, NULL, bounds.from_at, bounds.until_at,
               sequences => events_at.sequences) e
     ORDER BY e.global_sequence;
END
$$;
