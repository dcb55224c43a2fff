-- headwater_private.are_attempts(attempts)
-- Returns whether a JSON value is a list of failed attempts that every reader can read: each has
-- `at`, `node` and `errors`.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.are_attempts(attempts jsonb)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    attempt jsonb;
BEGIN
    IF jsonb_typeof(attempts) IS DISTINCT FROM 'array' THEN
        RETURN false;
    END IF;
    FOR attempt IN SELECT a FROM jsonb_array_elements(attempts) a LOOP
        IF (jsonb_typeof(attempt) = 'object' AND jsonb_typeof(attempt -> 'node') = 'string' AND jsonb_typeof(attempt -> 'errors') = 'array'
            AND attempt ->> 'at' ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$')
           IS NOT TRUE THEN
            RETURN false;
        END IF;
        PERFORM (attempt ->> 'at')::timestamptz;
        IF EXISTS (SELECT FROM jsonb_array_elements(attempt -> 'errors') e WHERE jsonb_typeof(e) <> 'string') THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
EXCEPTION WHEN data_exception THEN
    RETURN false;
END
$$;
