-- headwater_private.scan_log(namespace_id, after, max_events, tail_from, types, likes, expected,
-- taken, looked, highest, others, one_table)
-- Looks at the first max_events events after a sequence, in one snapshot. Only for events in the
-- table of current months.
--   taken      the events of `types`, or of types like one of `likes` if that is not NULL
--   looked     how many events there are
--   highest    the last of them
--   others     the types that are not in `expected`, each as often as it occurs
--   one_table  there is no hole between the events, so they are all in one table
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.scan_log(
    namespace_id int, after bigint, max_events bigint, tail_from timestamptz, types text[], likes text[], expected text[],
    OUT taken bigint[], OUT looked bigint, OUT highest bigint, OUT others text[], OUT one_table boolean
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT array_agg(e.global_sequence) FILTER (WHERE CASE WHEN likes IS NULL THEN e.event_type = ANY (types) ELSE e.event_type LIKE ANY (likes) END),
           count(*), max(e.global_sequence), array_agg(e.event_type) FILTER (WHERE e.event_type <> ALL (expected))
      INTO taken, looked, highest, others
      FROM (SELECT e.global_sequence, e.event_type FROM headwater_private.tail_events() e
             WHERE e.namespace_id = scan_log.namespace_id AND e.global_sequence > scan_log.after
             ORDER BY e.global_sequence LIMIT scan_log.max_events) e;
    one_table := coalesce(highest = scan_log.after + looked, false);
    IF NOT one_table THEN
        SELECT array_agg(e.global_sequence) FILTER (WHERE CASE WHEN likes IS NULL THEN e.event_type = ANY (types) ELSE e.event_type LIKE ANY (likes) END),
               count(*), max(e.global_sequence), array_agg(e.event_type) FILTER (WHERE e.event_type <> ALL (expected))
          INTO taken, looked, highest, others
          FROM (SELECT e.global_sequence, e.event_type FROM headwater_private.events e
                 WHERE e.namespace_id = scan_log.namespace_id AND e.global_sequence > scan_log.after AND e.recorded_at >= scan_log.tail_from
                 ORDER BY e.global_sequence LIMIT scan_log.max_events) e;
    END IF;
    taken := coalesce(taken, '{}');
END
$$;
