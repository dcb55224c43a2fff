-- Makes calls of a function of the schema `headwater` wait, before or after its work, while a test
-- holds a lock. So the statements of a look become steps of the test. The function itself moves to
-- the schema `aside`; it must return rows.
CREATE SCHEMA aside;

CREATE FUNCTION aside.stop() RETURNS void LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock_shared(7, 7) $$;

-- Whatever its arguments are.
CREATE FUNCTION aside.put(name text, before text, after text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    f record;
BEGIN
    SELECT p.oid::regprocedure AS signature, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result,
           (SELECT string_agg('$' || i, ', ') FROM generate_series(1, p.pronargs) i) AS given
      INTO STRICT f FROM pg_proc p WHERE p.pronamespace = 'headwater'::regnamespace AND p.proname = put.name;
    EXECUTE format('ALTER FUNCTION %s SET SCHEMA aside', f.signature);
    EXECUTE format('CREATE FUNCTION headwater.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', put.name, f.arguments, f.result,
        format('BEGIN %s RETURN QUERY SELECT r.* FROM aside.%I(%s) r; %s END', before, put.name, f.given, after));
END
$$;
