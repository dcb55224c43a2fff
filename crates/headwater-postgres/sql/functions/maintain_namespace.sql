-- headwater.maintain_namespace(namespace, at)
-- Public: in docs/sql.md.
-- Keeps the leaves of this month and the next two ready, and seals past months, so that an append need not look
-- for its event ids in them: headwater_private.prepare_months. Calling it daily, as the owner, keeps that off the path of appends. Months that
-- namespaces share are made by the owner of the tables; a granted role seals its own. What somebody is in the way of is left to the next call.
-- `at` is for tests, and for the owner of the tables: for others, it is now.
-- Locks, writes: see prepare_months. Raises: WH001, WH002 (at), WH034.
CREATE OR REPLACE FUNCTION headwater.maintain_namespace(namespace text, at timestamptz DEFAULT clock_timestamp(), caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns       headwater_private.namespaces := headwater_private.open_namespace(maintain_namespace.namespace, caller, NULL);
    by_owner constant boolean := pg_has_role(caller, current_user, 'USAGE');
BEGIN
    PERFORM headwater_private.prepare_months(ns, CASE WHEN by_owner THEN at ELSE clock_timestamp() END, by_owner);
END
$$;
