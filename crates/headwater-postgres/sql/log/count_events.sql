-- headwater_private.count_events(namespace_id, ranges, except_for, above, within)
-- Counts the events of a namespace in ranges of its log (first, last, first, last, …), and sums
-- their sequences. Events in except_for do not count. above, within: count only events above this
-- sequence, or in this ledger; NULL: all.
-- Each month's table is released before the next one is opened: locks that are taken in a
-- subtransaction end with it.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.count_events(
    namespace_id int, ranges bigint[], except_for bigint[] DEFAULT '{}', above bigint DEFAULT NULL, within bigint[] DEFAULT '{}',
    OUT events bigint, OUT sum numeric
) LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part  record;
    found record;
BEGIN
    events := 0;
    sum := 0;
    IF cardinality(count_events.ranges) = 0 THEN
        RETURN;
    END IF;
    FOR part IN SELECT t.name, t.condition
                  FROM headwater_private.month_tables(count_events.namespace_id, count_events.ranges[1],
                                                      count_events.ranges[cardinality(count_events.ranges)]) t LOOP
        BEGIN
            EXECUTE format(
                'SELECT count(*) AS events, coalesce(sum(e.global_sequence), 0) AS sum
                   FROM generate_series(1, cardinality($2), 2) AS i
                   JOIN %s e ON %s AND e.namespace_id = $1 AND e.global_sequence >= $2[i] AND e.global_sequence <= $2[i + 1]
                  WHERE e.global_sequence <> ALL ($3)
                    AND ($4 IS NULL OR e.global_sequence > $4
                         OR headwater_private.ledger_holds($5, ARRAY[e.global_sequence, e.global_sequence]))', part.name, part.condition)
               INTO found USING count_events.namespace_id, count_events.ranges, count_events.except_for, count_events.above, count_events.within;
            RAISE EXCEPTION USING ERRCODE = 'WH099', MESSAGE = 'counted';
        EXCEPTION WHEN SQLSTATE 'WH099' THEN
            NULL;
        END;
        events := events + found.events;
        sum := sum + found.sum;
    END LOOP;
END
$$;
