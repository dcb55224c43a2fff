-- headwater.fail(code, message, detail, hint)
-- Raises one of Headwater's errors: SQLSTATE `code` (docs/errors/), with a JSON DETAIL for programs.
-- Raises: always. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.fail(code text, message text, detail jsonb, hint text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail::text, HINT = hint;
END
$$;
