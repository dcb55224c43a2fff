-- headwater.note_dropped(namespace)
-- Public: in docs/sql.md.
-- Records which trimmed months have lost their table: months of the namespace, and of all
-- namespaces that share their months. Deletes the notes of what was left behind there.
-- Raises: WH001. Locks, writes: these months, left_behind, leaving_months.
CREATE OR REPLACE FUNCTION headwater.note_dropped(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(note_dropped.namespace, caller, 'owner');
BEGIN
    UPDATE headwater_private.months m SET dropped_at = clock_timestamp()
     WHERE (m.namespace_id = ns.namespace_id OR m.leaf !~ '^events_n') AND m.trimmed_at IS NOT NULL AND m.dropped_at IS NULL
       AND to_regclass(format('headwater_private.%I', m.leaf)) IS NULL;
    DELETE FROM headwater_private.left_behind b WHERE to_regclass(format('headwater_private.%I', b.leaf)) IS NULL;
    -- Notes of dropped tables that held a namespace of their own are for begin_move.
    DELETE FROM headwater_private.leaving_months v
     WHERE to_regclass(format('headwater_private.%I', v.leaf)) IS NULL AND v.leaf !~ '^events_n[0-9]+$';
END
$$;
