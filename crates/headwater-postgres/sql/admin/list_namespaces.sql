-- headwater.list_namespaces(only_namespace)
-- Lists the namespaces that the caller was granted, by name, or one of them.
-- Raises: WH001 if there is no such namespace, or the caller was granted nothing there. Locks,
-- writes: nothing.
CREATE OR REPLACE FUNCTION headwater.list_namespaces(only_namespace text DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, namespace_id int, ordering text, notify boolean, retention double precision, max_payload_bytes int, metadata jsonb,
               created_at timestamptz, months_made_by text, storage text, index text, index_state text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF only_namespace IS NOT NULL THEN
        PERFORM headwater_private.open_namespace(only_namespace, caller, NULL);
    END IF;
    RETURN QUERY
    SELECT n.namespace, n.namespace_id, n.ordering, n.notify, extract(epoch FROM n.retention)::double precision, n.max_payload_bytes, n.metadata,
           n.created_at, n.months_made_by, n.storage, n.index, coalesce(i.state, 'none')
      FROM headwater_private.namespaces n
      LEFT JOIN headwater_private.index_states i ON i.namespace_id = n.namespace_id
     WHERE n.namespace_id = ANY (CASE WHEN only_namespace IS NULL THEN headwater_private.granted_to(caller, NULL)
                                      ELSE ARRAY[(SELECT o.namespace_id FROM headwater_private.namespaces o WHERE o.namespace = only_namespace)] END)
     ORDER BY n.namespace;
END
$$;
