-- headwater_private.are_readable(event_type, key, actor_id, headers, schema_version)
-- Returns whether every reader can read events with these fields: the rules of check_event, for a
-- batch. Only emit_batch and append_batch, which call this, and emit_one, which checks the same for
-- one event, write events. So the table needs no check of its own, which each statement would have
-- to parse.
-- Raises: 22 if headers are not JSON. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.are_readable(
    event_type text[], key text[], actor_id text[], headers text[], schema_version int[]
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN array_to_string(event_type || key || actor_id, '') !~ E'[\\x01-\\x1f\\x7f]'
       AND NOT EXISTS (SELECT FROM (SELECT unnest(event_type) AS event_type, unnest(key) AS key, unnest(actor_id) AS actor_id,
                                            unnest(schema_version) AS schema_version) e
                        WHERE (octet_length(e.event_type) BETWEEN 1 AND 255) IS NOT TRUE OR octet_length(e.key) NOT BETWEEN 1 AND 512
                           OR octet_length(e.actor_id) NOT BETWEEN 1 AND 512 OR e.schema_version < 1)
       AND NOT EXISTS (SELECT FROM (SELECT unnest(headers) AS headers) h
                        WHERE jsonb_typeof(h.headers::jsonb) <> 'object'
                           OR jsonb_path_exists(h.headers::jsonb, 'strict $.* ? (@.type() != "string")'));
END
$$;
