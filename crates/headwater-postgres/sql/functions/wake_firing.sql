-- headwater_private.wake_firing(ns)
-- Wakes those who fire what is due, from within this transaction, unless the namespace says not to: what is due next has changed. By the
-- namespace's number: see wake_due.
-- Raises: nothing. Locks: the cluster's notification queue, at commit. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.wake_firing(ns headwater_private.namespaces)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ns.notify AND headwater_private.may_notify() THEN
        PERFORM pg_notify('headwater.due', ns.namespace_id::text);
    END IF;
END
$$;
