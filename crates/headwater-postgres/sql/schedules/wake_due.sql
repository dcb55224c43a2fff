-- headwater.wake_due(namespace)
-- Wakes the sessions that fire due events, for writers that do so after their commit. All
-- namespaces use one channel, so that one session can listen for all of them. Any session of the
-- database can listen too, so the wake-up carries only the namespace's number, and never its name.
-- A wake-up may be lost.
-- Raises: nothing. Locks: the cluster's notification queue, at commit. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater.wake_due(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.open_namespace(wake_due.namespace, caller, NULL);
    PERFORM pg_notify('headwater.due', n.namespace_id::text) FROM headwater_private.namespaces n WHERE n.namespace = wake_due.namespace AND headwater_private.may_notify();
END
$$;
