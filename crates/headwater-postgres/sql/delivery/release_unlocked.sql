-- headwater_private.release_unlocked(namespace_id, subscriber_id, worker, partitions)
-- Releases the partitions of this list that a worker owns, except those whose row another
-- transaction has locked: there the worker itself settles events. Terms stay: the next owner gets a
-- new one. Returns how many were released.
-- Raises: nothing. Locks: the rows, never waiting. Writes: subscribers.
CREATE OR REPLACE FUNCTION headwater_private.release_unlocked(namespace_id int, subscriber_id text, worker uuid, partitions int[])
RETURNS int LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    released int;
BEGIN
    UPDATE headwater_private.subscribers s
       SET owner_node = NULL, owner_incarnation = NULL, lease_until = NULL, lease = NULL, locked = false, report = NULL
      FROM (SELECT o.partition FROM headwater_private.subscribers o
             WHERE o.namespace_id = release_unlocked.namespace_id AND o.subscriber_id = release_unlocked.subscriber_id
               AND o.partition = ANY (release_unlocked.partitions) AND o.owner_incarnation = release_unlocked.worker
               FOR NO KEY UPDATE SKIP LOCKED) o
     WHERE s.namespace_id = release_unlocked.namespace_id AND s.subscriber_id = release_unlocked.subscriber_id AND s.partition = o.partition;
    GET DIAGNOSTICS released = ROW_COUNT;
    RETURN released;
END
$$;
