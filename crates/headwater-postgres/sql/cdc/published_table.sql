-- headwater_private.published_table(ns)
-- Returns what the publication of a namespace publishes, in the syntax of CREATE PUBLICATION and
-- ALTER PUBLICATION. Servers before 15 send the events of all namespaces that share their months;
-- the reader leaves them out.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.published_table(ns headwater_private.namespaces)
RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN format('headwater_private.%I', headwater_private.log_table(ns))
           || CASE WHEN ns.storage = 'shared' AND current_setting('server_version_num')::int >= 150000
                   THEN format(' WHERE (namespace_id = %s)', ns.namespace_id) ELSE '' END;
END
$$;
