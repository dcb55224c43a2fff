-- headwater.horizon(namespace)
-- Public: in docs/sql.md.
-- The highest global_sequence at or below which nothing can still commit. Whoever reads the log up to it, in a
-- statement that starts after this one has ended, sees all that will ever be there; what is missing is a permanent gap.
-- `head` is the highest sequence handed out so far; between the two lies what is pending.
-- Raises: WH001, WH006 (nothing can be proved here). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.horizon(namespace text, OUT horizon bigint, OUT head bigint, caller headwater.caller DEFAULT current_user)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(horizon.namespace, caller, NULL);
BEGIN
    PERFORM headwater_private.require_proof();
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
