-- headwater.release_leases(namespace, incarnation, subscriber_ids, partitions, locked)
-- Releases the partitions of this list that the instance owns. What others own stays theirs.
-- `locked` says for which of them this session holds the advisory lock. Terms stay: the next owner
-- gets a new one.
-- Raises: WH001. Locks: the rows. Writes: subscribers; the session's advisory locks are released.
CREATE OR REPLACE FUNCTION headwater.release_leases(
    namespace text, incarnation uuid, subscriber_ids text[], partitions int[], locked boolean[],
    caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(release_leases.namespace, caller, 'consumer');
BEGIN
    UPDATE headwater_private.subscribers s
       SET owner_node = NULL, owner_incarnation = NULL, lease_until = NULL, lease = NULL, locked = false, report = NULL
      FROM unnest(release_leases.subscriber_ids, release_leases.partitions) AS a(id, partition)
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = a.id AND s.partition = a.partition
       AND s.owner_incarnation = release_leases.incarnation;
    PERFORM pg_advisory_unlock(key.high, key.low)
       FROM unnest(release_leases.subscriber_ids, release_leases.partitions, release_leases.locked) AS a(id, partition, locked),
            headwater_private.subscriber_lock(release_leases.namespace, a.id, a.partition) AS key
      WHERE a.locked;
END
$$;
