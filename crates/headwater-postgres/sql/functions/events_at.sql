-- headwater_private.events_at(namespace_id, sequences)
-- The events with these sequences, in order, as this snapshot shows them.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.events_at(namespace_id int, sequences bigint[])
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bounds record;
BEGIN
    SELECT l.* INTO bounds
      FROM (SELECT min(s.sequence) AS first, max(s.sequence) AS last FROM unnest(events_at.sequences) AS s(sequence)) s
     CROSS JOIN LATERAL headwater_private.log_bounds(events_at.namespace_id, s.first - 1, s.last, NULL) l;
    RETURN QUERY EXECUTE
        'SELECT e.* FROM (' || headwater_private.over_months(
            'SELECT e.* FROM %s e WHERE %s AND e.namespace_id = $1 AND e.global_sequence = ANY ($2) AND e.recorded_at >= $3 AND e.recorded_at < $4',
            events_at.namespace_id, bounds.from_at, bounds.until_at)
        || ') e ORDER BY e.global_sequence'
        USING events_at.namespace_id, events_at.sequences, bounds.from_at, bounds.until_at;
END
$$;
