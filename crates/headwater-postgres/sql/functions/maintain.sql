-- headwater.maintain(namespace, at)
-- Public: in docs/sql.md.
-- All that keeps a namespace's log in shape and can be done in a transaction: makes coming months, seals past ones, and answers the months that
-- are older than the namespace keeps its events. What is left is to trim them (headwater.trim_month) and to run what headwater.drop_steps answers:
-- nodes do that, and `headwater partitions maintain`. `at` is for tests, and what is made and sealed goes by it only for the owner of the tables.
-- Raises: WH001, WH006. Locks, writes: see prepare_months, seal_past.
CREATE OR REPLACE FUNCTION headwater.maintain(namespace text, at timestamptz DEFAULT clock_timestamp(), caller headwater.caller DEFAULT current_user)
RETURNS TABLE (starts_at timestamptz, leaf text, due_at timestamptz, held_by text[]) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns       headwater_private.namespaces := headwater_private.open_namespace(maintain.namespace, caller, NULL);
    by_owner constant boolean := pg_has_role(caller, current_user, 'USAGE');
BEGIN
    PERFORM headwater_private.prepare_months(ns, CASE WHEN by_owner THEN maintain.at ELSE clock_timestamp() END, by_owner);
    PERFORM headwater_private.seal_past(ns, by_owner);
    RETURN QUERY SELECT p.starts_at, p.leaf, p.due_at, p.held_by FROM headwater.partitions(maintain.namespace, maintain.at) p
                  WHERE p.due_at <= maintain.at AND p.sealed_at IS NOT NULL AND p.trimmed_at IS NULL;
END
$$;
