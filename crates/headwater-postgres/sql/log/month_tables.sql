-- headwater_private.month_tables(namespace_id, first_sequence, last_sequence, from_at, until_at)
-- Lists the tables that may hold events of a namespace with sequences from first_sequence to
-- last_sequence, recorded at or after from_at and before until_at (NULL: no bound). A namespace has
-- one table per sealed month with events of it, and one table for everything that is not sealed
-- yet. Each row has
--   condition   a condition on the table's events `e`. It prevents a sealed month that is still
--   part of the table of current months from being read twice.
--   low, high   the table has no sequences of the namespace below low or above high. The ranges of
--   two months may overlap.
-- The oldest table comes first. Trimmed months are left out.
--
-- A table of a past month never loses a row: it is replaced as a whole by another table, and then
-- dropped. So a table that an older snapshot chose either has all its rows or no longer exists,
-- which is an error (42P01) and never a hole in the log. Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.month_tables(
    namespace_id int, first_sequence bigint DEFAULT NULL, last_sequence bigint DEFAULT NULL, from_at timestamptz DEFAULT NULL,
    until_at timestamptz DEFAULT NULL
) RETURNS TABLE (name text, condition text, low bigint, high bigint) LANGUAGE plpgsql STABLE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    tail     record;
    complete bigint;
BEGIN
    SELECT t.* INTO tail FROM headwater_private.tails t WHERE t.namespace_id = month_tables.namespace_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- Most reads ask for what lies beyond the sealed months.
    IF month_tables.first_sequence IS NULL OR month_tables.first_sequence <= tail.tail_after THEN
        RETURN QUERY
        SELECT format('headwater_private.%I', m.leaf), 'true', m.first_sequence, m.last_sequence
          FROM headwater_private.months m
         WHERE m.namespace_id = month_tables.namespace_id AND m.trimmed_at IS NULL
           AND m.last_sequence >= coalesce(month_tables.first_sequence, m.last_sequence)
           AND m.first_sequence <= coalesce(month_tables.last_sequence, m.first_sequence)
           AND m.ends_at > coalesce(month_tables.from_at, '-infinity') AND m.starts_at < coalesce(month_tables.until_at, 'infinity')
         ORDER BY m.starts_at;
        -- Everything up to `complete` was recorded in sealed months.
        SELECT m.complete_to INTO complete FROM headwater_private.months m
         WHERE m.namespace_id = month_tables.namespace_id ORDER BY m.starts_at DESC LIMIT 1;
        IF month_tables.last_sequence <= complete THEN
            RETURN;
        END IF;
    END IF;
    IF month_tables.until_at <= tail.tail_from THEN
        RETURN;
    END IF;
    name := tail.name;
    condition := tail.condition;
    low := coalesce(complete, 0) + 1;
    high := 9223372036854775807;
    RETURN NEXT;
END
$$;
-- The tables of what is not sealed yet, for all namespaces.
CREATE OR REPLACE VIEW headwater_private.tails AS
SELECT n.namespace_id, n.tail_after, n.tail_from,
       CASE n.storage WHEN 'own' THEN 'headwater_private.events_n' || n.namespace_id ELSE 'headwater_private.events' END AS name,
       CASE WHEN isfinite(n.tail_from) THEN 'e.recorded_at >= ' || quote_literal(to_char(n.tail_from AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US"+00"'))
            ELSE 'true' END AS condition
  FROM headwater_private.namespaces n;
