-- headwater_private.leaves(namespace_id)
-- The leaves of the table that takes a namespace's new events (log_table), as the catalog has them, the oldest first. `detaching`: a detachment was begun and not ended.
-- Of a namespace that the caller may not know of, none. The catalog tells bounds as text, so its form is pinned: as a session may have it, it cannot
-- always be read back.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.leaves(namespace_id int)
RETURNS TABLE (leaf text, leaf_id oid, starts_at timestamptz, ends_at timestamptz, detaching boolean) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET timezone = 'UTC' AS $$
    SELECT l.relname::text, l.oid, b.bounds[1]::timestamptz, b.bounds[2]::timestamptz,
           -- Servers before 14 have no such column.
           coalesce((to_jsonb(i) ->> 'inhdetachpending')::boolean, false)
      FROM pg_catalog.pg_inherits i
      JOIN pg_catalog.pg_class l ON l.oid = i.inhrelid
     CROSS JOIN LATERAL regexp_match(pg_get_expr(l.relpartbound, l.oid), 'FROM [(]''([^'']+)''[)] TO [(]''([^'']+)''[)]') AS b(bounds)
     WHERE i.inhparent = (SELECT to_regclass('headwater_private.' || headwater_private.log_table(n))
                            FROM headwater_private.namespaces n WHERE n.namespace_id = leaves.namespace_id)
       AND b.bounds IS NOT NULL
     ORDER BY 3
$$;
