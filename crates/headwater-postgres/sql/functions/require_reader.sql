-- headwater.require_reader(namespace_id)
-- Whether the caller may read the log of a namespace: true, or an error. Row-level security alone would show an empty log to a reader whose grant was
-- taken back, and a reader that has proof that a range is settled would take it for one of gaps. So whatever reads pages asks here first,
-- in its LIMIT, which is evaluated once a statement, whether there are rows or not.
-- Raises: WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.require_reader(namespace_id int) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF row_security_active('headwater.events') AND NOT coalesce(require_reader.namespace_id = ANY (headwater.granted('consumer')), false) THEN
        PERFORM headwater.fail('WH015', format('role %L may not read this namespace', current_user),
            jsonb_build_object('role', current_user, 'kind', 'consumer'),
            'have the owner of the schema grant it: SELECT headwater.grant_role(''namespace'', ''role'', ''consumer'')');
    END IF;
    RETURN true;
END
$$;
