-- headwater.wake(namespace)
-- Public: in docs/sql.md.
-- Wakes the readers of a namespace, for writers that do so after their commit. A wake-up carries nothing and may be lost, so
-- this transaction does not wait for the disk.
-- Raises: nothing. Locks: the cluster's notification queue, at commit. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater.wake(namespace text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_notify('headwater_' || wake.namespace, '');
END
$$;
