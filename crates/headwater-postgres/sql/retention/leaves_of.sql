-- headwater_private.leaves_of(parent)
-- Lists the tables of months that are attached to a partitioned table of events, from the catalog,
-- oldest first. A default partition is not among them. The catalog returns bounds as text, so this
-- pins its form: in the form of some sessions, the text cannot be read back. `detaching`: a
-- detachment was begun and has not ended.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.leaves_of(parent text)
RETURNS TABLE (leaf text, leaf_id oid, starts_at timestamptz, ends_at timestamptz, detaching boolean) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET timezone = 'UTC' AS $$
    SELECT l.relname::text, l.oid, b.bounds[1]::timestamptz, b.bounds[2]::timestamptz,
           -- Servers before 14 have no such column.
           coalesce((to_jsonb(i) ->> 'inhdetachpending')::boolean, false)
      FROM pg_catalog.pg_inherits i
      JOIN pg_catalog.pg_class l ON l.oid = i.inhrelid
     CROSS JOIN LATERAL regexp_match(pg_get_expr(l.relpartbound, l.oid), 'FROM [(]''([^'']+)''[)] TO [(]''([^'']+)''[)]') AS b(bounds)
     WHERE i.inhparent = to_regclass('headwater_private.' || leaves_of.parent)
       AND b.bounds IS NOT NULL
     ORDER BY 3
$$;
