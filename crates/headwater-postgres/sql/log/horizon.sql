-- headwater.horizon(namespace)
-- Public: in docs/sql.md.
-- Returns the highest global_sequence at or below which nothing can still commit. A statement that
-- starts after this one has ended, and reads the log up to it, sees everything that will ever be
-- there. What is missing there is a permanent gap. `head` is the highest sequence handed out so
-- far. What is pending lies between the two.
-- Raises: WH001, WH006 (nothing can be proved here). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.horizon(namespace text, OUT horizon bigint, OUT head bigint, caller headwater.caller DEFAULT current_user)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT h.* INTO horizon, head
      FROM headwater_private.horizon_of((headwater_private.open_namespace(horizon.namespace, caller, NULL)).namespace_id) h;
END
$$;
