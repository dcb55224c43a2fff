-- headwater_private.move_target(ns, storage)
-- Returns the name of the partitioned table that takes the events of a namespace once it has that
-- storage.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.move_target(ns headwater_private.namespaces, storage text)
RETURNS text LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    ns.storage := move_target.storage;
    RETURN headwater_private.log_table(ns);
END
$$;
