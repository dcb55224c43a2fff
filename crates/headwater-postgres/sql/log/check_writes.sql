-- headwater_private.check_writes(writes)
-- Checks the JSON that headwater.append takes, so that the error names the wrong value.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_writes(writes jsonb)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hint constant text := 'writes: [{"stream_id": "order-1", "expected_version": 3, "events": [{"type": "OrderPlaced", "data": {}}]}]';
    write  jsonb;
    event  jsonb;
    field  text;
    known  constant text[] := '{id,type,data,key,schema_version,actor_id,correlation_id,causation_id,headers,created_at}';
    seen   text[] := '{}';
BEGIN
    IF jsonb_typeof(writes) IS DISTINCT FROM 'array' OR jsonb_array_length(writes) = 0 THEN
        PERFORM headwater_private.fail('WH002', 'invalid writes: not a JSON array with at least one write', jsonb_build_object('what', 'writes'), hint);
    END IF;
    FOR write IN SELECT jsonb_array_elements(writes) LOOP
        IF write ->> 'stream_id' IS NOT NULL THEN
            PERFORM headwater_private.check_name('stream_id', write ->> 'stream_id', 512);
            IF write ->> 'stream_id' = ANY (seen) THEN
                PERFORM headwater_private.fail('WH002', format('stream %L appears twice', write ->> 'stream_id'),
                    jsonb_build_object('what', 'stream_id', 'value', write ->> 'stream_id'), 'put its events into one write');
            END IF;
            seen := seen || (write ->> 'stream_id');
        ELSIF write ->> 'expected_version' IS NOT NULL THEN
            PERFORM headwater_private.fail('WH002', 'expected_version without a stream_id',
                jsonb_build_object('what', 'expected_version', 'value', write -> 'expected_version'), hint);
        END IF;
        IF write ->> 'expected_version' !~ '^(-1|[0-9]{1,18})$' THEN
            PERFORM headwater_private.fail('WH002', format('invalid expected_version %s', write ->> 'expected_version'),
                jsonb_build_object('what', 'expected_version', 'value', write -> 'expected_version'),
                'expected_version is null (any), 0 (no stream), -1 (exists) or the version');
        END IF;
        IF coalesce(jsonb_typeof(write -> 'events') NOT IN ('array', 'object'), true) OR write -> 'events' = '[]' THEN
            PERFORM headwater_private.fail('WH002', 'invalid events: not a JSON object, nor an array of at least one',
                jsonb_build_object('what', 'events'), hint);
        END IF;
        FOR event IN SELECT jsonb_array_elements(CASE jsonb_typeof(write -> 'events') WHEN 'array' THEN write -> 'events'
                                                 ELSE jsonb_build_array(write -> 'events') END) LOOP
            IF jsonb_typeof(event) <> 'object' OR jsonb_typeof(event -> 'type') IS DISTINCT FROM 'string' THEN
                PERFORM headwater_private.fail('WH002', format('invalid event %s', left(event::text, 80)),
                    jsonb_build_object('what', 'event', 'value', left(event::text, 80)),
                    'an event is a JSON object with a "type": {"type": "OrderPlaced", "data": {}}');
            END IF;
            SELECT k INTO field FROM jsonb_object_keys(event) k WHERE k <> ALL (known) LIMIT 1;
            IF FOUND THEN
                PERFORM headwater_private.fail('WH002', format('unknown field %L in an event', field),
                    jsonb_build_object('what', 'event', 'value', field), 'an event has ' || array_to_string(known, ', '));
            END IF;
            FOREACH field IN ARRAY ARRAY['id', 'correlation_id', 'causation_id'] LOOP
                IF event ->> field !~* '^(([0-9a-f]{4}-?){7}[0-9a-f]{4}|[{]([0-9a-f]{4}-?){7}[0-9a-f]{4}[}])$' THEN
                    PERFORM headwater_private.fail('WH002', format('invalid %s %L', field, left(event ->> field, 80)),
                        jsonb_build_object('what', field, 'value', left(event ->> field, 80)), format('%s is a UUID', field));
                END IF;
            END LOOP;
            IF event ->> 'schema_version' !~ '^[0-9]{1,10}$' THEN
                PERFORM headwater_private.fail('WH002', format('invalid schema_version %s', left(event ->> 'schema_version', 80)),
                    jsonb_build_object('what', 'schema_version', 'value', left(event ->> 'schema_version', 80)), 'schema_version is a whole number from 1');
            END IF;
            PERFORM headwater_private.check_event(event ->> 'type', event ->> 'key', event ->> 'actor_id', event -> 'headers',
                                          (event ->> 'schema_version')::bigint);
        END LOOP;
    END LOOP;
END
$$;
