-- headwater_private.check_grant(role, kind)
-- Returns the role of that name.
-- Raises: WH002 if there is no such role, or no such kind of grant. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_grant(role text, kind text) RETURNS regrole LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    grantee regrole := to_regrole(quote_ident(check_grant.role));
BEGIN
    IF grantee IS NULL THEN
        PERFORM headwater_private.fail('WH002', format('role %L does not exist', left(check_grant.role, 80)),
            jsonb_build_object('what', 'role', 'value', left(check_grant.role, 80)), 'make it first: CREATE ROLE name LOGIN');
    END IF;
    IF coalesce(check_grant.kind NOT IN ('producer', 'consumer', 'admin'), true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid kind %L', left(check_grant.kind, 80)),
            jsonb_build_object('what', 'kind', 'value', left(check_grant.kind, 80)), 'a grant is that of a producer, a consumer or an admin');
    END IF;
    RETURN grantee;
END
$$;
