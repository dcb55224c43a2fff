-- headwater.maintain(namespace, at)
-- Public: in docs/sql.md.
-- All that keeps a namespace's log in shape and can be done in a transaction: makes coming months, seals past ones, and answers the months that
-- are older than the namespace keeps its events. What is left is to trim them (headwater.trim_month) and to run what headwater.drop_steps answers:
-- nodes do that, and `headwater partitions maintain`. `at` is for tests.
-- Raises: WH001, WH006. Locks, writes: see maintain_namespace, seal_months.
CREATE OR REPLACE FUNCTION headwater.maintain(namespace text, at timestamptz DEFAULT clock_timestamp(), caller headwater.caller DEFAULT current_user)
RETURNS TABLE (starts_at timestamptz, leaf text, due_at timestamptz, held_by text[]) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.open_namespace(maintain.namespace, caller, NULL);
    PERFORM headwater.maintain_namespace(maintain.namespace, maintain.at);
    PERFORM headwater.seal_months(maintain.namespace);
    RETURN QUERY SELECT p.starts_at, p.leaf, p.due_at, p.held_by FROM headwater.partitions(maintain.namespace, maintain.at) p
                  WHERE p.due_at <= maintain.at AND p.sealed_at IS NOT NULL AND p.trimmed_at IS NULL;
END
$$;
