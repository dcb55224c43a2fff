-- headwater_private.node_name(name)
-- Returns the id of a node with this name: lower case, with - for everything that is not a letter,
-- a digit, a dot, - or _. NULL: an id is made up.
-- Raises: WH002 if nothing is left of it, or too much. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.node_name(name text)
RETURNS text LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id text := coalesce(trim(BOTH '-' FROM regexp_replace(lower(name), '[^a-z0-9._-]+', '-', 'g')),
                        'node-' || left(replace(gen_random_uuid()::text, '-', ''), 12));
BEGIN
    IF octet_length(id) NOT BETWEEN 1 AND 255 THEN
        PERFORM headwater_private.fail('WH002', format('invalid node_id %L', left(name, 80)),
            jsonb_build_object('what', 'node_id', 'value', left(name, 80)),
            'a node_id is 1 to 255 letters, digits, dots, - and _');
    END IF;
    RETURN id;
END
$$;
