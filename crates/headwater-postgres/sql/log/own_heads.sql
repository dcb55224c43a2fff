-- headwater_private.own_heads()
-- The result of headwater_private.heads_query for namespaces with tables of their own. Each is read
-- in a subtransaction that is rolled back, which releases its locks: the number of locks does not
-- grow with the number of namespaces.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.own_heads()
RETURNS TABLE (namespace_id int, newest bigint, in_tail bigint) LANGUAGE plpgsql STABLE ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own record;
BEGIN
    FOR own IN SELECT n.namespace_id, n.tail_from, n.tail_after, headwater_private.log_table(n) AS name
                 FROM headwater_private.namespaces n WHERE n.storage = 'own' LOOP
        BEGIN
            EXECUTE format('SELECT e.global_sequence FROM headwater_private.%I e WHERE e.namespace_id = $1 AND e.recorded_at >= $2
                             ORDER BY e.global_sequence DESC LIMIT 1', own.name)
               INTO in_tail USING own.namespace_id, own.tail_from;
            RAISE EXCEPTION USING ERRCODE = 'WH099', MESSAGE = 'looked';
        EXCEPTION WHEN SQLSTATE 'WH099' THEN
            NULL;
        END;
        namespace_id := own.namespace_id;
        newest := greatest(in_tail, own.tail_after);
        RETURN NEXT;
    END LOOP;
END
$$;
