-- headwater_private.check_granted(namespace_id, shown, caller, kind)
-- Refuses a caller who does not own Headwater's tables and was not granted `kind` (NULL: anything)
-- in a namespace. An admin grant includes the others. If the caller was granted nothing in the
-- namespace, the error is the same as for a namespace that does not exist. It shows the name that
-- the caller gave, `shown`.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_granted(namespace_id int, shown text, caller name, kind text)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kinds text[] := ARRAY(SELECT g.kind FROM headwater_private.grants g
                           WHERE g.namespace_id = check_granted.namespace_id AND pg_has_role(check_granted.caller, g.role::oid, 'USAGE'));
BEGIN
    IF kinds = '{}' THEN
        PERFORM headwater_private.fail('WH001', format('namespace %s does not exist', left(shown, 80)),
            jsonb_build_object('namespace', trim(left(shown, 80), '''')), 'create it: SELECT headwater.create_namespace(''name'')');
    ELSIF NOT coalesce(kind IS NULL OR kind = ANY (kinds) OR (kind <> 'owner' AND 'admin' = ANY (kinds)), false) THEN
        PERFORM headwater_private.fail('WH015', format('role %L is no %s in namespace %s', caller, kind, shown),
            jsonb_build_object('role', caller, 'kind', kind),
            CASE kind WHEN 'owner' THEN 'only the role that owns Headwater''s tables, and superusers, may do this'
                      ELSE format('have the owner grant it: SELECT headwater.grant_role(''namespace'', %L, %L)', caller, kind) END);
    END IF;
END
$$;
