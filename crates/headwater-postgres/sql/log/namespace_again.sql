-- headwater_private.namespace_again(namespace_id)
-- Returns the present settings of a namespace that the caller knows by its number. It is for a
-- second look in one call: in the meantime a name can pass to another namespace
-- (headwater.rename_namespace), but a number cannot.
-- Raises: WH001 if it was dropped. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.namespace_again(namespace_id int)
RETURNS headwater_private.namespaces LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = namespace_again.namespace_id;
    IF NOT FOUND THEN
        PERFORM headwater_private.fail('WH001', 'the namespace does not exist any more: it was dropped',
            jsonb_build_object('namespace', 'number ' || namespace_again.namespace_id), 'create it: SELECT headwater.create_namespace(''name'')');
    END IF;
    RETURN ns;
END
$$;
