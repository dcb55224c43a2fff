-- headwater_private.check_event(event_type, key, actor_id, headers, schema_version)
-- Checks the fields of an event that a SQL caller gave. NULL means not given, except for the type.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_event(
    event_type text, key text, actor_id text, headers jsonb, schema_version numeric
) RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.check_name('event_type', coalesce(event_type, ''), 255);
    IF key IS NOT NULL THEN
        PERFORM headwater_private.check_name('key', key, 512);
    END IF;
    IF actor_id IS NOT NULL THEN
        PERFORM headwater_private.check_name('actor_id', actor_id, 512);
    END IF;
    IF jsonb_typeof(headers) NOT IN ('object', 'null')
       OR (jsonb_typeof(headers) = 'object'
           AND EXISTS (SELECT FROM jsonb_each(headers) h WHERE jsonb_typeof(h.value) <> 'string')) THEN
        PERFORM headwater_private.fail('WH002', format('invalid headers %s', left(headers::text, 80)),
            jsonb_build_object('what', 'headers', 'value', left(headers::text, 80)), 'headers is a JSON object of strings');
    END IF;
    IF schema_version NOT BETWEEN 1 AND 2147483647 OR schema_version <> trunc(schema_version) THEN
        PERFORM headwater_private.fail('WH002', format('invalid schema_version %s', schema_version),
            jsonb_build_object('what', 'schema_version', 'value', schema_version), 'schema_version is a whole number from 1');
    END IF;
END
$$;
