-- headwater_private.namespace_row(namespace)
-- Returns the settings of a namespace.
-- Raises: WH001 if there is no such namespace. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.namespace_row(namespace text)
RETURNS headwater_private.namespaces LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace = namespace_row.namespace;
    IF NOT FOUND THEN
        PERFORM headwater_private.fail('WH001',
            format('namespace %L does not exist', left(namespace_row.namespace, 80)),
            jsonb_build_object('namespace', left(namespace_row.namespace, 80)),
            'create it: SELECT headwater.create_namespace(''name'')');
    END IF;
    RETURN ns;
END
$$;
