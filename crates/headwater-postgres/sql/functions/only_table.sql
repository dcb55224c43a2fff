-- headwater_private.only_table(namespace_id, first_sequence, last_sequence, from_at, until_at)
-- The table that a read needs, if it is just one of those that headwater_private.month_tables tells, with its condition; NULL: it may need several. Most
-- reads need one, and read it without the steps of headwater_private.by_month. For a read that needs none: the table of current months, with a
-- condition that nothing meets.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.only_table(
    namespace_id int, first_sequence bigint, last_sequence bigint, from_at timestamptz, until_at timestamptz, OUT name text, OUT condition text
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tables int := 0;
BEGIN
    -- What is beyond the sealed months, which is asked for most often, takes one lookup.
    SELECT t.name, t.condition INTO name, condition
      FROM headwater_private.tails t
     WHERE t.namespace_id = only_table.namespace_id AND (only_table.first_sequence > t.tail_after OR only_table.from_at >= t.tail_from);
    IF FOUND THEN
        RETURN;
    END IF;
    FOR name, condition IN
        SELECT t.name, t.condition FROM headwater_private.month_tables(only_table.namespace_id, only_table.first_sequence, only_table.last_sequence,
                                                                       only_table.from_at, only_table.until_at) t LIMIT 2 LOOP
        tables := tables + 1;
    END LOOP;
    IF tables = 0 THEN
        name := 'headwater_private.events';
        condition := 'false';
    ELSIF tables > 1 THEN
        name := NULL;
    END IF;
END
$$;
