-- headwater_private.log_table(ns)
-- Returns the name of the partitioned table that takes the namespace's new events: `events`, which
-- many namespaces share, or a table of its own.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.log_table(ns headwater_private.namespaces)
RETURNS text LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE ns.storage WHEN 'own' THEN 'events_n' || ns.namespace_id::text ELSE 'events' END;
END
$$;
