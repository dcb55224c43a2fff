-- headwater_private.leaves(namespace_id)
-- Lists the leaves of the table that takes a namespace's new events (log_table), from the catalog,
-- oldest first. `detaching`: a detachment was begun and has not ended.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.leaves(namespace_id int)
RETURNS TABLE (leaf text, leaf_id oid, starts_at timestamptz, ends_at timestamptz, detaching boolean) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.* FROM headwater_private.namespaces n
     CROSS JOIN LATERAL headwater_private.leaves_of(headwater_private.log_table(n)) l
     WHERE n.namespace_id = leaves.namespace_id
     ORDER BY l.starts_at
$$;
