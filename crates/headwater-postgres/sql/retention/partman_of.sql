-- headwater_private.partman_of(namespace_id, schema, major, knows)
-- Returns the pg_partman of this database: its schema and major version, and whether it manages the
-- months of a namespace; NULL: it is not installed.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.partman_of(namespace_id int, OUT schema text, OUT major int, OUT knows boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT n.nspname, split_part(e.extversion, '.', 1)::int INTO schema, major
      FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_partman';
    IF FOUND THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %I.part_config WHERE parent_table = $1)', schema) INTO knows
          USING format('headwater_private.events_n%s', partman_of.namespace_id);
    END IF;
END
$$;
