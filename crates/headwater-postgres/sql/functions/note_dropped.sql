-- headwater.note_dropped(namespace)
-- Public: in docs/sql.md.
-- Notes of which trimmed months the leaf is gone.
-- Raises: WH001. Locks, writes: these months.
CREATE OR REPLACE FUNCTION headwater.note_dropped(namespace text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ns headwater.namespaces := headwater.namespace_row(note_dropped.namespace);
BEGIN
    UPDATE headwater.months m SET dropped_at = clock_timestamp()
     WHERE m.namespace_id = ns.namespace_id AND m.trimmed_at IS NOT NULL AND m.dropped_at IS NULL
       AND to_regclass(format('headwater.%I', m.leaf)) IS NULL;
END
$$;
