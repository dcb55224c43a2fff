-- headwater.maintain_namespace(namespace, at)
-- Public: in docs/sql.md.
-- Keeps the leaves of this month and the next two ready, and seals past months, so that an append
-- need not search them for its event ids: headwater_private.prepare_months. A daily call by the
-- owner keeps that work out of appends. The owner of the tables creates months that namespaces
-- share; a granted role seals its own namespace's months. If somebody is in the way of a step, the
-- next call takes it. `at` is for tests by the owner of the tables: for all others, it is now.
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
