-- headwater_private.lock_queue(namespace_id, subscriber_id)
-- Lets one transaction at a time claim, hand back or reset events of a shared subscriber. Statements that begin afterwards see all that the
-- earlier ones committed. 64 bits: 0x4851 'HQ' (16), namespace_id (16), a hash of the id (32): where two ids share one, they share the lock.
-- Raises, writes: nothing. Locks: the advisory lock, until the transaction ends.
CREATE OR REPLACE FUNCTION headwater_private.lock_queue(namespace_id int, subscriber_id text)
RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_advisory_xact_lock((18513::bigint << 48) | (namespace_id::bigint << 32) | (hashtext(subscriber_id)::bigint & 4294967295))
$$;
