-- headwater.queue_name_for_namespace(p_namespace)
-- Public: in docs/sql.md.
-- Returns the name of a namespace's queue. Use it as a subscriber_id where one queue takes all
-- events of a namespace.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.queue_name_for_namespace(p_namespace text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'core_events_' || replace(p_namespace, '-', '_')
$$;
