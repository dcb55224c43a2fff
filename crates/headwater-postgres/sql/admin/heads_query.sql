-- headwater_private.heads_query(granted, tables)
-- Returns a query, as text to EXECUTE, that finds the highest global_sequence that this snapshot
-- shows of each namespace in `granted` (NULL: all). The query returns namespace_id, namespace,
-- ordering, storage and tail_after of each, and
--   newest    the result of newest_sequence, which counts trimmed events too; 0: there never was an
--             event
--   in_tail   the highest sequence that is not in a sealed month; NULL: there is none
-- For a namespace that shares its months, it takes one index lookup in each of `tables`, which hold
-- events of current months. For all others, see own_heads. Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.heads_query(granted int[], tables text[]) RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lookups text;
BEGIN
    SELECT string_agg(format('(SELECT e.global_sequence FROM %s e WHERE e.namespace_id = n.namespace_id ORDER BY e.global_sequence DESC LIMIT 1)', t.name), ', ')
      INTO lookups FROM unnest(tables) AS t(name);
    -- Everything in a sealed month is at or below tail_after. A list of namespaces is joined:
    -- searching a long list for each number takes longer than everything else.
    RETURN format(
        'SELECT h.namespace_id, h.namespace, h.ordering, h.storage, h.tail_after, greatest(h.highest, h.tail_after) AS newest,
                CASE WHEN h.highest > h.tail_after THEN h.highest END AS in_tail
           FROM (SELECT n.namespace_id, n.namespace, n.ordering, n.storage, n.tail_after, greatest(%1$s) AS highest
                   FROM headwater_private.namespaces n %2$s WHERE n.storage = ''shared'' OFFSET 0) h
          UNION ALL
         SELECT n.namespace_id, n.namespace, n.ordering, n.storage, n.tail_after, o.newest, o.in_tail
           FROM headwater_private.own_heads() o JOIN headwater_private.namespaces n ON n.namespace_id = o.namespace_id %2$s',
        coalesce(lookups, 'NULL::bigint'),
        CASE WHEN heads_query.granted IS NOT NULL THEN format('JOIN unnest(%L::int[]) AS g(namespace_id) ON g.namespace_id = n.namespace_id', heads_query.granted) END);
END
$$;
