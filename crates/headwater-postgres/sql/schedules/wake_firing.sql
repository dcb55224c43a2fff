-- headwater_private.wake_firing(ns)
-- Wakes the sessions that fire due events, from within this transaction, unless the namespace has
-- switched that off: what is due next has changed. The wake-up carries the namespace's number: see
-- wake_due.
-- Raises: nothing. Locks: the cluster's notification queue, at commit. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.wake_firing(ns headwater_private.namespaces)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ns.notify AND headwater_private.may_notify() THEN
        PERFORM pg_notify('headwater.due', ns.namespace_id::text);
    END IF;
END
$$;
