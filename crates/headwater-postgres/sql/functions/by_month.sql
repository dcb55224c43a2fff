-- headwater_private.by_month(answer, query, namespace_id, first_sequence, last_sequence, max_rows, from_at, until_at, types, stream, prefix, sequences, ends,
--                            ids, firsts, lasts, newest_first)
-- Asks a query of the tables that headwater_private.month_tables tells, one after the other, and answers all rows, in that order and of the type of
-- `answer`. In `query`, the first %s stands for the table and the second for a condition on its events `e`, which goes into its WHERE; $1 to $14 are the
-- parameters from namespace_id to lasts. It has its own ORDER BY and LIMIT, so that each table is read in the order of an index. Once max_rows were
-- found (NULL: never), tables that have only higher sequences are not asked, or only lower ones if newest_first. The rows of months
-- whose sequences overlap are not in order: the caller sorts, and cuts off what is too much.
--
-- Locks: nothing that stays. Each table is read in a subtransaction that is rolled back, which gives back the locks on the table and its indexes, so
-- there are no more of them with 60 months than with one. Rows that were answered stay answered. They are made whole before the table is let go: nothing
-- of them is left in a table that may be gone when they are read. A subtransaction that wrote nothing takes no transaction id.
--
-- All tables are read in one snapshot, that of the statement that calls: the function is STABLE, and so are its statements. That matters: a page that was
-- read in several snapshots could show an event that commits between two of them, and not the one before it in an earlier month, which a reader
-- would take for a hole. Never make it VOLATILE.
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
    -- What the tables so far may have.
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
        -- A table that has none of these sequences is not opened. (With `ends`, they begin ranges.)
        CONTINUE WHEN ends IS NULL AND NOT EXISTS (SELECT FROM unnest(by_month.sequences) AS q(sequence) WHERE q.sequence BETWEEN part.low AND part.high)
                      AND by_month.sequences IS NOT NULL;
        BEGIN
            -- A row as one value has nothing in other tables.
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
