-- headwater_private.events_in(namespace_id, first_sequence, last_sequence, event_types, max_events)
-- Returns the events of a range of the log, in order, as this snapshot shows them: the first
-- max_events of these types. NULL: no limit, all types. The whole result is held in memory or in a
-- temporary file: ask only for bounded ranges.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.events_in(
    namespace_id int, first_sequence bigint, last_sequence bigint, event_types text[] DEFAULT NULL, max_events int DEFAULT NULL
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    query CONSTANT text :=
        'SELECT e.* FROM %s e
          WHERE %s AND e.namespace_id = $1 AND e.global_sequence >= $2 AND e.global_sequence <= $3
            AND e.recorded_at >= $5 AND e.recorded_at < $6 AND ($7 IS NULL OR e.event_type = ANY ($7))
          ORDER BY e.global_sequence LIMIT $4';
    bounds record;
    one    record;
BEGIN
    SELECT l.* INTO bounds
      FROM headwater_private.log_bounds(events_in.namespace_id, events_in.first_sequence - 1, events_in.last_sequence,
                                        CASE WHEN events_in.event_types IS NULL THEN events_in.max_events END) l;
    one := headwater_private.only_table(events_in.namespace_id, events_in.first_sequence, events_in.last_sequence, bounds.from_at, bounds.until_at);
    IF one.name IS NOT NULL THEN
        RETURN QUERY EXECUTE format(query, one.name, one.condition)
            USING events_in.namespace_id, events_in.first_sequence, coalesce(events_in.last_sequence, 9223372036854775807), events_in.max_events,
                  bounds.from_at, bounds.until_at, events_in.event_types;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events, query, events_in.namespace_id, events_in.first_sequence, events_in.last_sequence, events_in.max_events,
               bounds.from_at, bounds.until_at, events_in.event_types) e
     ORDER BY e.global_sequence LIMIT events_in.max_events;
END
$$;
