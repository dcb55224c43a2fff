-- headwater_private.fail(code, message, detail, hint)
-- Raises one of Headwater's errors: SQLSTATE `code` (docs/errors/), with a JSON DETAIL for
-- programs.
-- Raises: always. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.fail(code text, message text, detail jsonb, hint text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail::text, HINT = hint;
END
$$;
