-- headwater_private.check_name(what, value, most)
-- Checks a stream id, event type, key or actor id. names.rs in headwater-core has the same rules.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_name(what text, value text, most int)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF octet_length(value) BETWEEN 1 AND most AND value !~ E'[\\x01-\\x1f\\x7f]' THEN
        RETURN;
    END IF;
    PERFORM headwater_private.fail('WH002',
        format('invalid %s %L', what, left(value, 80)),
        jsonb_build_object('what', what, 'value', left(value, 80)),
        format('%s is 1 to %s bytes without control characters', what, most));
END
$$;
