-- headwater_private.only_table(namespace_id, first_sequence, last_sequence, from_at, until_at)
-- Returns the table that a read needs, with its condition, if it needs only one of the tables that
-- headwater_private.month_tables lists; NULL: it may need several. Most reads need one table, and
-- read it without the steps of headwater_private.by_month. For a read that needs no table, it
-- returns the table of current months with a condition that is never true.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.only_table(
    namespace_id int, first_sequence bigint, last_sequence bigint, from_at timestamptz, until_at timestamptz, OUT name text, OUT condition text
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tables int := 0;
BEGIN
    -- Most reads ask for what lies beyond the sealed months. That takes one lookup.
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
