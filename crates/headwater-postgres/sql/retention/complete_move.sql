-- headwater_private.complete_move(ns)
-- Takes one of the remaining steps after a namespace was moved to other storage
-- (headwater.set_storage): moves a past month, or drops the namespace's own table that nobody needs
-- any more. Returns the step and how many events it moved; no step: nothing is left.
-- Raises: 55P03 (somebody uses the table: try again). Locks, writes: see move_month; the
-- namespace's own table, leaving_months.
CREATE OR REPLACE FUNCTION headwater_private.complete_move(ns headwater_private.namespaces, OUT step text, OUT events bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    month headwater_private.months;
    tree  constant text := headwater_private.move_target(ns, 'own');
BEGIN
    SELECT m.* INTO month FROM headwater_private.months m
     WHERE m.namespace_id = ns.namespace_id AND m.trimmed_at IS NULL AND m.last_sequence IS NOT NULL
       AND m.leaf ~ '^events_n' = (ns.storage = 'shared')
     ORDER BY m.starts_at LIMIT 1;
    IF FOUND THEN
        step := 'moved';
        events := headwater_private.move_month(ns, month);
    ELSIF ns.storage = 'shared' AND to_regclass(format('headwater_private.%I', tree)) IS NOT NULL THEN
        -- Months without events still name a table below the one to be dropped. Nobody needs to
        -- read it.
        UPDATE headwater_private.months m SET events = 0, sequence_sum = 0 WHERE m.namespace_id = ns.namespace_id AND m.last_sequence IS NULL;
        -- Drop it as a whole: a reader that chose it a moment ago gets an error, and does not take
        -- the missing events for a gap.
        EXECUTE format('DROP TABLE headwater_private.%I', tree);
        -- A later move creates another table of this name: begin_move waits until nobody can take
        -- it for this one.
        INSERT INTO headwater_private.leaving_months AS v (leaf, sealed_below)
        SELECT tree, greatest(pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_current_xact_id()::text::bigint + 1)::text::xid8
        ON CONFLICT (leaf) DO UPDATE SET sealed_below = excluded.sealed_below;
        step := 'dropped';
        events := 0;
    END IF;
END
$$;
