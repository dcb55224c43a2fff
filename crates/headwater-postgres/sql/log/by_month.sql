-- headwater_private.by_month(answer, query, namespace_id, first_sequence, last_sequence, max_rows,
-- from_at, until_at, types, stream, prefix, sequences, ends, ids, firsts, lasts, newest_first)
-- Runs a query on each table that headwater_private.month_tables lists, one after the other, and
-- returns all rows in that order. The rows have the type of `answer`. In `query`, the first %s
-- stands for the table, and the second for a condition on its events `e`, which goes into the WHERE
-- clause; $1 to $14 are the parameters from namespace_id to lasts. The query has its own ORDER BY
-- and LIMIT, so that each table is read in the order of an index. Once max_rows rows were found
-- (NULL: no limit), this skips the tables that hold only higher sequences, or only lower ones if
-- newest_first. If the sequences of two months overlap, their rows are not in order: the caller
-- sorts, and cuts off what exceeds its limit.
--
-- Locks: nothing that stays. Each table is read in a subtransaction that is rolled back. The
-- rollback releases the locks on the table and its indexes, so 60 months hold no more locks than
-- one. Rows that were returned stay returned. They are made whole before the table is released, so
-- that no part of them remains in a table that may be gone when they are read. A subtransaction
-- that wrote nothing takes no transaction id.
--
-- All tables are read in one snapshot, which belongs to the calling statement: the function is
-- STABLE, and so are its statements. This matters. A page that was read in several snapshots could
-- show an event that commits between two of them, without the event before it in an earlier month.
-- A reader would take that for a hole. Never make this function VOLATILE.
-- Raises: 42P01 if a table was replaced after the snapshot was taken. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.by_month(
    answer anyelement, query text, namespace_id int, first_sequence bigint DEFAULT NULL, last_sequence bigint DEFAULT NULL, max_rows bigint DEFAULT NULL,
    from_at timestamptz DEFAULT NULL, until_at timestamptz DEFAULT NULL, types text[] DEFAULT NULL, stream text DEFAULT NULL, prefix text DEFAULT NULL,
    sequences bigint[] DEFAULT NULL, ends bigint[] DEFAULT NULL, ids uuid[] DEFAULT NULL, firsts bigint[] DEFAULT NULL,
    lasts bigint[] DEFAULT NULL, newest_first boolean DEFAULT false
) RETURNS SETOF anyelement LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part  record;
    rows  bigint := 0;
    found bigint;
    -- The lowest and the highest sequence that the tables read so far may hold.
    low   bigint;
    high  bigint;
BEGIN
    first_sequence := coalesce(first_sequence, 0);
    last_sequence := coalesce(last_sequence, 9223372036854775807);
    FOR part IN SELECT t.name, t.condition, t.low, t.high
                  FROM headwater_private.month_tables(by_month.namespace_id, by_month.first_sequence, by_month.last_sequence, by_month.from_at,
                                                      by_month.until_at) t
                 ORDER BY CASE WHEN newest_first THEN -t.high ELSE t.low END LOOP
        EXIT WHEN rows >= max_rows AND CASE WHEN newest_first THEN low > part.high ELSE high < part.low END;
        -- Skip a table that has none of these sequences, so that it is not opened. (With `ends`,
        -- the sequences are the starts of ranges.)
        CONTINUE WHEN ends IS NULL AND NOT EXISTS (SELECT FROM unnest(by_month.sequences) AS q(sequence) WHERE q.sequence BETWEEN part.low AND part.high)
                      AND by_month.sequences IS NOT NULL;
        BEGIN
            -- A row that is one value keeps nothing in other tables.
            RETURN QUERY EXECUTE format('SELECT (x.r).* FROM (SELECT r FROM (' || query || ') r OFFSET 0) x', part.name, part.condition)
                USING namespace_id, first_sequence, last_sequence, max_rows, coalesce(from_at, '-infinity'), coalesce(until_at, 'infinity'), types, stream,
                      prefix, sequences, ends, ids, firsts, lasts;
            GET DIAGNOSTICS found = ROW_COUNT;
            RAISE EXCEPTION USING ERRCODE = 'WH099', MESSAGE = 'read';
        EXCEPTION WHEN SQLSTATE 'WH099' THEN
            NULL;
        END;
        rows := rows + found;
        low := least(low, part.low);
        high := greatest(high, part.high);
    END LOOP;
END
$$;
