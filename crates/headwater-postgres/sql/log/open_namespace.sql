-- headwater_private.open_namespace(namespace, caller, kind)
-- Returns the settings of a namespace, for a caller who was granted `kind` there: producer,
-- consumer, admin, or any kind (NULL). `owner` is the role that owns Headwater's tables. Every
-- entry point begins with this call. Entry points run as the owner, so they do whatever this call
-- lets through.
-- Raises: WH001 if there is no such namespace, or the caller was granted nothing there; WH015 if
-- the caller was granted something else.
-- Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.open_namespace(namespace text, caller name, kind text)
RETURNS headwater_private.namespaces LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace = open_namespace.namespace;
    IF NOT FOUND THEN
        RETURN headwater_private.namespace_row(open_namespace.namespace);
    ELSIF pg_has_role(caller, current_user, 'USAGE') IS NOT TRUE THEN
        IF NOT EXISTS (SELECT FROM headwater_private.grants g
                        WHERE g.namespace_id = ns.namespace_id AND g.kind IN (open_namespace.kind, 'admin') AND open_namespace.kind <> 'owner'
                          AND pg_has_role(open_namespace.caller, g.role::oid, 'USAGE')) THEN
            PERFORM headwater_private.check_granted(ns.namespace_id, quote_literal(open_namespace.namespace), caller, kind);
        END IF;
    END IF;
    RETURN ns;
END
$$;
