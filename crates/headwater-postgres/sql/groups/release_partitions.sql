-- headwater.release_partitions(namespace, subscriber_id, worker, partitions)
-- Public: in docs/sql.md.
-- Releases partitions of a worker, so that others can take them at once: these partitions, or all
-- that it owns and its membership in the group (NULL). Returns how many were released. A partition
-- whose events are being settled in another transaction stays leased until its lease ends.
-- Raises: WH001, WH002, WH012, WH013. Locks: the rows, never waiting. Writes: subscribers, members.
CREATE OR REPLACE FUNCTION headwater.release_partitions(
    namespace text, subscriber_id text, worker uuid, partitions int[] DEFAULT NULL, caller headwater.caller DEFAULT current_user
) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(release_partitions.namespace, caller, 'consumer');
BEGIN
    IF release_partitions.worker IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'invalid worker NULL', jsonb_build_object('what', 'worker', 'value', NULL),
            'give the id that the partitions were leased with');
    END IF;
    PERFORM headwater_private.ordered_mode(ns.namespace_id, release_partitions.subscriber_id);
    IF release_partitions.partitions IS NULL THEN
        PERFORM headwater.leave_groups(release_partitions.namespace, release_partitions.worker, ARRAY[release_partitions.subscriber_id]);
    END IF;
    RETURN headwater_private.release_unlocked(ns.namespace_id, release_partitions.subscriber_id, release_partitions.worker,
        coalesce(release_partitions.partitions,
                 ARRAY(SELECT s.partition FROM headwater_private.subscribers s
                        WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = release_partitions.subscriber_id
                          AND s.owner_incarnation = release_partitions.worker)));
END
$$;
