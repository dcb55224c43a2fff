-- headwater_private.over_months(query, namespace_id, from_at, until_at)
-- Writes a query over those tables that may hold events of a namespace recorded from from_at on and before until_at (NULL: no bound).
-- The answer is text to EXECUTE: `query` once per table, combined by UNION ALL. In `query`, %1$s stands for the table and %2$s for a condition on
-- the events `e`, which goes into its WHERE. Each copy has its own ORDER BY and LIMIT, so that each table is read in the order of an index.
--
-- Sealed months are in the tables that headwater_private.months names, whatever storage the namespace has now. What is not sealed is in the table
-- that takes new events (log_table). The condition keeps sealed months that are still part of that table from being read twice. Trimmed months are
-- left out.
--
-- Tables of past months never lose a row: they are replaced as a whole, by another table, and then dropped. So a table that was chosen
-- by an older snapshot has all its rows, or does not exist any more, which is an error (42P01) and never a hole in the log.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.over_months(
    query text, namespace_id int, from_at timestamptz DEFAULT NULL, until_at timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns    headwater_private.namespaces;
    log   text;
    parts text;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = over_months.namespace_id;
    log := 'headwater_private.' || headwater_private.log_table(ns);
    IF over_months.from_at IS NULL OR over_months.from_at < ns.tail_from THEN
        SELECT string_agg('(' || format(over_months.query, format('headwater_private.%I', m.leaf), 'true') || ')', ' UNION ALL '
                          ORDER BY m.starts_at)
          INTO parts
          FROM headwater_private.months m
         WHERE m.namespace_id = over_months.namespace_id AND m.trimmed_at IS NULL AND m.last_sequence IS NOT NULL
           AND m.ends_at > coalesce(over_months.from_at, '-infinity') AND m.starts_at < coalesce(over_months.until_at, 'infinity');
    END IF;
    IF over_months.until_at IS NULL OR over_months.until_at > ns.tail_from THEN
        parts := concat_ws(' UNION ALL ', parts, '(' || format(over_months.query, log,
            CASE WHEN isfinite(ns.tail_from)
                 THEN format('e.recorded_at >= %L', to_char(ns.tail_from AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US"+00"'))
                 ELSE 'true' END) || ')');
    END IF;
    RETURN coalesce(parts, '(' || format(over_months.query, log, 'false') || ')');
END
$$;
