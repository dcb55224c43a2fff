-- headwater_private.log_table(ns)
-- The name of the partitioned table that takes new events of a namespace: `events`, which many share, or a tree of its own.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.log_table(ns headwater_private.namespaces)
RETURNS text LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE ns.storage WHEN 'own' THEN 'events_n' || ns.namespace_id::text ELSE 'events' END;
END
$$;
