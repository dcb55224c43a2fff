-- headwater.dead_letter_queue_name_for_namespace(p_namespace)
-- Public: in docs/sql.md.
-- Returns the name of the queue of a namespace's dead letters. Headwater keeps dead letters with
-- their subscriber: headwater.read_dead_letters.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.dead_letter_queue_name_for_namespace(p_namespace text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT headwater.queue_name_for_namespace(p_namespace) || '_dlq'
$$;
