-- headwater.wake_firing(ns)
-- Wakes those who fire what is due, from within this transaction, unless the namespace says not to: what is due next has changed.
-- Raises: nothing. Locks: the cluster's notification queue, at commit. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater.wake_firing(ns headwater.namespaces)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF ns.notify THEN
        PERFORM pg_notify('headwater.due', ns.namespace);
    END IF;
END
$$;
