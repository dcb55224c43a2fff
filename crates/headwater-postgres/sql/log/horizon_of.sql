-- headwater_private.horizon_of(namespace_id)
-- headwater.horizon for callers that know the number of the namespace. A name can pass to another
-- namespace while a call waits for a lock (headwater.rename_namespace). A second lookup by name
-- could then read another namespace's horizon.
-- Raises: WH001 if it was dropped, WH006 (nothing can be proved here). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.horizon_of(namespace_id int, OUT horizon bigint, OUT head bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces;
BEGIN
    PERFORM headwater_private.require_proof();
    ns := headwater_private.namespace_again(horizon_of.namespace_id);
    IF ns.ordering = 'gapless' THEN
        head := headwater_private.counted(ns.namespace_id);
        horizon := head;
        RETURN;
    END IF;
    -- The order is the proof. A value that was handed out before `head` was read had its lock
    -- before that. If the lock is gone when the locks are read, its transaction has ended, and the
    -- next snapshot shows what it committed.
    head := pg_sequence_last_value(ns.sequence);
    -- No lock lies below 0, and no lock moves the horizon beyond `head`.
    SELECT min(w.above_sequence) INTO horizon FROM headwater.writers(ns.namespace_id) w;
    -- Never beyond what is visible: the sequences above it, which nobody committed, may not have
    -- reached the disk, and a crash would hand them out again.
    horizon := least(head, horizon, headwater_private.newest_sequence(ns));
END
$$;
