-- headwater_private.run_ahead(namespace_id, after, max_events, tail_from, known, hole, one_table)
-- Returns how far the log continues after a sequence without a hole, among the first max_events
-- events. Only for events in the table of current months.
--   known      the last sequence of this run; NULL if the next sequence is not visible
--   hole       some of these events are not part of the run; NULL if there are no events
--   one_table  the run is in one table
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.run_ahead(
    namespace_id int, after bigint, max_events int, tail_from timestamptz, OUT known bigint, OUT hole boolean, OUT one_table boolean
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    events bigint;
BEGIN
    one_table := true;
    hole := false;
    SELECT count(*), max(e.global_sequence) INTO events, known
      FROM (SELECT e.global_sequence FROM headwater_private.tail_events() e
             WHERE e.namespace_id = run_ahead.namespace_id AND e.global_sequence > run_ahead.after
             ORDER BY e.global_sequence LIMIT run_ahead.max_events) e;
    IF known <> run_ahead.after + events THEN
        hole := true;
        SELECT max(e.global_sequence) INTO known
          FROM (SELECT e.global_sequence, row_number() OVER (ORDER BY e.global_sequence) AS place FROM headwater_private.tail_events() e
                 WHERE e.namespace_id = run_ahead.namespace_id AND e.global_sequence > run_ahead.after
                 ORDER BY e.global_sequence LIMIT run_ahead.max_events) e
         WHERE e.global_sequence = run_ahead.after + e.place;
    END IF;
    IF known IS NULL THEN
        one_table := false;
        SELECT max(e.global_sequence) FILTER (WHERE e.global_sequence = run_ahead.after + e.place),
               bool_or(e.global_sequence <> run_ahead.after + e.place)
          INTO known, hole
          FROM (SELECT e.global_sequence, row_number() OVER (ORDER BY e.global_sequence) AS place FROM headwater_private.events e
                 WHERE e.namespace_id = run_ahead.namespace_id AND e.global_sequence > run_ahead.after AND e.recorded_at >= run_ahead.tail_from
                 ORDER BY e.global_sequence LIMIT run_ahead.max_events) e;
    END IF;
END
$$;
