-- headwater.maintain(namespace, at)
-- Public: in docs/sql.md.
-- Does all maintenance of a namespace's log that a transaction can do: creates coming months, seals
-- past ones, settles what queues do not take (headwater.settle_untaken; for a caller who may
-- consume), and returns the months that are older than the namespace keeps its events. Two things
-- remain: trim these months (headwater.trim_month), and run the steps that headwater.drop_steps
-- returns. Nodes do both, and so does `headwater months maintain`. `at` is for tests. It
-- decides what is created and sealed only if the caller owns the tables.
-- Claims from the queues that are settled wait for the end of the caller's transaction. So a call
-- looks through about 100,000 events, in all queues together, and the next call continues.
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
    IF headwater_private.is_granted(ns.namespace_id, caller, 'consumer') THEN
        PERFORM FROM headwater_private.settle_queues(ns, NULL, 100000);
    END IF;
    RETURN QUERY SELECT p.starts_at, p.leaf, p.due_at, p.held_by FROM headwater.months(maintain.namespace, maintain.at) p
                  WHERE p.due_at <= maintain.at AND p.sealed_at IS NOT NULL AND p.trimmed_at IS NULL;
END
$$;
