-- headwater.wake_due(namespace)
-- Wakes those who fire events when they are due, for writers that do so after their commit. The channel is one for all namespaces, so that one
-- session can hear of all. Any session of the database can, so the namespace is told by its number, and its name to nobody. A wake-up may be lost.
-- Raises: nothing. Locks: the cluster's notification queue, at commit. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater.wake_due(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.open_namespace(wake_due.namespace, caller, NULL);
    PERFORM pg_notify('headwater.due', n.namespace_id::text) FROM headwater_private.namespaces n WHERE n.namespace = wake_due.namespace AND headwater_private.may_notify();
END
$$;
