-- headwater_private.month_tables(namespace_id, first_sequence, last_sequence)
-- The tables that may hold events of a range of the log (NULL: no bound), one by one, the oldest first, each with a condition on its events
-- `e`, as in headwater_private.over_months. For what looks through the whole log: it takes one table at a time and lets go of it
-- (headwater_private.count_events), so that its locks do not grow with the number of months.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.month_tables(namespace_id int, first_sequence bigint DEFAULT NULL, last_sequence bigint DEFAULT NULL)
RETURNS TABLE (name text, condition text) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = month_tables.namespace_id;
    RETURN QUERY
    SELECT t.name, t.condition
      FROM (SELECT m.starts_at, format('headwater_private.%I', m.leaf) AS name, 'true' AS condition FROM headwater_private.months m
             WHERE m.namespace_id = ns.namespace_id AND m.trimmed_at IS NULL
               AND m.last_sequence >= coalesce(month_tables.first_sequence, m.last_sequence)
               AND m.first_sequence <= coalesce(month_tables.last_sequence, m.first_sequence)
             UNION ALL
            SELECT l.starts_at, format('headwater_private.%I', l.leaf), 'true' FROM headwater_private.leaves(ns.namespace_id) l
             WHERE ns.storage = 'own' AND l.ends_at > ns.tail_from
             UNION ALL
            SELECT ns.tail_from, 'headwater_private.events',
                   format('e.recorded_at >= %L', to_char(ns.tail_from AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US"+00"'))
             WHERE ns.storage = 'shared') t
     ORDER BY t.starts_at;
END
$$;
