-- headwater.wake(namespace)
-- Public: in docs/sql.md.
-- Wakes the readers of a namespace, for writers that do so after their commit. A wake-up carries no
-- data and may be lost.
-- Raises: WH001. Locks: the cluster's notification queue, at commit. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater.wake(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.open_namespace(wake.namespace, caller, NULL);
    PERFORM pg_notify('headwater_' || wake.namespace, '') WHERE headwater_private.may_notify();
END
$$;
