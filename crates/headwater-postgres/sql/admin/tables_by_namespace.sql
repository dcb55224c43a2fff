-- headwater_private.tables_by_namespace()
-- Lists the tables with rows of namespaces, except namespaces and months themselves, the tables of
-- events, and tables that describe rows in those. `large`: a namespace may have very many rows
-- there. Tables that other tables refer to come last.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.tables_by_namespace()
RETURNS TABLE (name text, large boolean) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.relname::text, c.relname IN ('streams', 'dead_letters', 'states', 'applied_events', 'cdc_inbox', 'type_index')
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace_id' AND NOT a.attisdropped
     WHERE c.relnamespace = 'headwater_private'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
       AND c.relname !~ '^events_' AND c.relname NOT IN ('namespaces', 'months', 'dropped_namespaces', 'left_behind')
     ORDER BY (SELECT count(*) FROM pg_catalog.pg_constraint f WHERE f.confrelid = c.oid AND f.contype = 'f'), 1
$$;
