-- headwater_private.events_at(namespace_id, sequences)
-- The events with these sequences, in order, as this snapshot shows them.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.events_at(namespace_id int, sequences bigint[])
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    query CONSTANT text :=
        'SELECT e.* FROM %s e
          WHERE %s AND e.namespace_id = $1 AND e.global_sequence = ANY ($10) AND e.global_sequence BETWEEN $2 AND $3
            AND e.recorded_at >= $5 AND e.recorded_at < $6 ORDER BY e.global_sequence LIMIT $4';
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
