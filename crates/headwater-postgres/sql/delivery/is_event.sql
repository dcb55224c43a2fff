-- headwater_private.is_event(event)
-- Returns whether a JSON value is an event that every reader can read: see event_json.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.is_event(event jsonb)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    time_ constant text :=
        '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$';
    uuid_ constant text := '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
    name  text;
BEGIN
    IF jsonb_typeof(event) IS DISTINCT FROM 'object' OR jsonb_typeof(event -> 'event_type') IS DISTINCT FROM 'string'
       OR (event ->> 'id' ~ uuid_ AND event ->> 'created_at' ~ time_ AND event ->> 'recorded_at' ~ time_
           AND event ->> 'global_sequence' ~ '^[0-9]{1,19}$' AND event ->> 'schema_version' ~ '^[0-9]{1,10}$') IS NOT TRUE
       OR jsonb_typeof(coalesce(event -> 'headers', '{}')) <> 'object'
       OR EXISTS (SELECT FROM jsonb_each(coalesce(event -> 'headers', '{}')) h WHERE jsonb_typeof(h.value) <> 'string') THEN
        RETURN false;
    END IF;
    IF event - '{id,stream_id,stream_version,event_type,schema_version,global_sequence,key,actor_id,correlation_id,causation_id}'::text[]
             - '{headers,created_at,recorded_at,transaction_id,data}'::text[] <> '{}' THEN
        RETURN false;
    END IF;
    FOREACH name IN ARRAY ARRAY['id', 'created_at', 'recorded_at', 'stream_id', 'key', 'actor_id', 'correlation_id', 'causation_id'] LOOP
        IF jsonb_typeof(coalesce(event -> name, '""')) <> 'string' THEN
            RETURN false;
        END IF;
    END LOOP;
    FOREACH name IN ARRAY ARRAY['global_sequence', 'schema_version', 'stream_version', 'transaction_id'] LOOP
        IF jsonb_typeof(coalesce(event -> name, '1')) <> 'number' OR coalesce(event ->> name, '1') !~ '^[0-9]{1,19}$' THEN
            RETURN false;
        END IF;
    END LOOP;
    PERFORM (event ->> 'schema_version')::int, (event ->> 'global_sequence')::bigint, (event ->> 'stream_version')::bigint,
            (event ->> 'transaction_id')::bigint, (event ->> 'created_at')::timestamptz, (event ->> 'recorded_at')::timestamptz;
    RETURN (event ->> 'correlation_id' ~ uuid_) IS NOT FALSE AND (event ->> 'causation_id' ~ uuid_) IS NOT FALSE;
EXCEPTION WHEN data_exception THEN
    RETURN false;
END
$$;
