-- headwater_private.run_of_types(namespace_id, after, most, types)
-- Returns how far the log continues after a sequence without a hole and with only events of
-- `types`, among the next `most` sequences. NULL: there is a hole among them. Only for events in
-- the table of the current month.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.run_of_types(namespace_id int, after bigint, most int, types text[])
RETURNS bigint LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    events  bigint;
    highest bigint;
    other   bigint;
BEGIN
    SELECT count(*), max(e.global_sequence), min(e.global_sequence) FILTER (WHERE e.event_type <> ALL (types)) INTO events, highest, other
      FROM headwater_private.tail_events() e
     WHERE e.namespace_id = run_of_types.namespace_id AND e.global_sequence BETWEEN run_of_types.after + 1 AND run_of_types.after + most;
    RETURN CASE WHEN highest = run_of_types.after + events THEN coalesce(other - 1, highest) END;
END
$$;
