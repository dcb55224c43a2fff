-- headwater.horizon(namespace)
-- Public: in docs/sql.md.
-- The highest global_sequence at or below which nothing can still commit. Whoever reads the log up to it, in a
-- statement that starts after this one has ended, sees all that will ever be there; what is missing is a permanent gap.
-- `head` is the highest sequence handed out so far; between the two lies what is pending.
-- Raises: WH001, WH006 (nothing can be proved here). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.horizon(namespace text, OUT horizon bigint, OUT head bigint, caller headwater.caller DEFAULT current_user)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT h.* INTO horizon, head
      FROM headwater_private.horizon_of((headwater_private.open_namespace(horizon.namespace, caller, NULL)).namespace_id) h;
END
$$;
