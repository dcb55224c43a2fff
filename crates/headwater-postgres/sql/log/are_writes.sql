-- headwater_private.are_writes(writes)
-- Returns whether the JSON that headwater.append takes is valid: the rules of check_writes, for all
-- writes and events at once, because a statement for each rule and event costs more than storing
-- the event. If it is not valid, check_writes says why. It streams as append_writes does, and sorts
-- no event.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.are_writes(writes jsonb)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    id constant text := '^(([0-9a-f]{4}-?){7}[0-9a-f]{4}|[{]([0-9a-f]{4}-?){7}[0-9a-f]{4}[}])$';
BEGIN
    IF jsonb_typeof(writes) IS DISTINCT FROM 'array' OR jsonb_array_length(writes) = 0 THEN
        RETURN false;
    END IF;
    IF (SELECT bool_and(CASE jsonb_typeof(x.events) WHEN 'object' THEN true WHEN 'array' THEN jsonb_array_length(x.events) > 0 ELSE false END
                        AND CASE WHEN x.stream_id IS NULL THEN x.expected IS NULL
                                 ELSE octet_length(x.stream_id) BETWEEN 1 AND 512 AND x.stream_id !~ E'[\\x01-\\x1f\\x7f]'
                                      AND coalesce(x.expected ~ '^(-1|[0-9]{1,18})$', true) END)
          FROM (SELECT v.value ->> 'stream_id' AS stream_id, v.value ->> 'expected_version' AS expected, v.value -> 'events' AS events
                  FROM (SELECT writes -> i.i AS value FROM (SELECT generate_series(0, jsonb_array_length(writes) - 1) AS i) i OFFSET 0) v
                OFFSET 0) x) IS NOT TRUE
       -- A query of its own, without the events: from PostgreSQL 16 on, such an aggregate sorts
       -- whole rows.
       OR (SELECT count(DISTINCT x.stream_id) <> count(x.stream_id)
             FROM (SELECT writes #>> ARRAY[i.i::text, 'stream_id'] AS stream_id
                     FROM (SELECT generate_series(0, jsonb_array_length(writes) - 1) AS i) i OFFSET 0) x) THEN
        RETURN false;
    END IF;
    RETURN (SELECT bool_and(CASE WHEN jsonb_typeof(x.event) = 'object' THEN
                jsonb_typeof(x.event -> 'type') = 'string'
                AND x.event - '{id,type,data,key,schema_version,actor_id,correlation_id,causation_id,headers,created_at}'::text[] = '{}'
                AND coalesce(x.event ->> 'id' ~* id, true)
                AND coalesce(x.event ->> 'correlation_id' ~* id, true) AND coalesce(x.event ->> 'causation_id' ~* id, true)
                AND coalesce(x.event ->> 'schema_version' ~ '^[0-9]{1,9}$' AND x.event ->> 'schema_version' ~ '[1-9]', x.event ->> 'schema_version' IS NULL)
                AND octet_length(x.event ->> 'type') BETWEEN 1 AND 255
                AND coalesce(octet_length(x.event ->> 'key') BETWEEN 1 AND 512, true)
                AND coalesce(octet_length(x.event ->> 'actor_id') BETWEEN 1 AND 512, true)
                AND concat(x.event ->> 'type', x.event ->> 'key', x.event ->> 'actor_id') !~ E'[\\x01-\\x1f\\x7f]'
                AND CASE jsonb_typeof(x.event -> 'headers') WHEN 'object' THEN
                             NOT jsonb_path_exists(x.event -> 'headers', 'strict $.* ? (@.type() != "string")')
                         ELSE coalesce(jsonb_typeof(x.event -> 'headers') = 'null', true) END
            ELSE false END)
              FROM (SELECT CASE jsonb_typeof(y.events) WHEN 'array' THEN y.events -> y.i ELSE y.events END AS event
                      FROM (SELECT v.events,
                                   generate_series(0, CASE jsonb_typeof(v.events) WHEN 'array' THEN jsonb_array_length(v.events) ELSE 1 END - 1) AS i
                              FROM (SELECT writes -> i.i -> 'events' AS events
                                      FROM (SELECT generate_series(0, jsonb_array_length(writes) - 1) AS i) i OFFSET 0) v
                            OFFSET 0) y
                    OFFSET 0) x) IS TRUE;
END
$$;
