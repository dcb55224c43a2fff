-- headwater_private.horizon_of(namespace_id)
-- What headwater.horizon answers, for callers that know the number. A name can change hands while a call waits for a
-- lock (headwater.rename_namespace): a second look by name could then ask another namespace's horizon.
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
    -- The order is the proof: a value handed out before `head` was read had its lock before that; if the lock
    -- is gone when the locks are read, its transaction has ended, and the next snapshot shows what it committed.
    head := pg_sequence_last_value(ns.sequence);
    -- No lock lies below 0, and none moves the horizon beyond `head`.
    SELECT min(w.above_sequence) INTO horizon FROM headwater.writers(ns.namespace_id) w;
    -- Never beyond what is visible: what nobody committed above it may not have reached the disk, and would be handed out
    -- again after a crash.
    horizon := least(head, horizon, headwater_private.newest_sequence(ns));
END
$$;
