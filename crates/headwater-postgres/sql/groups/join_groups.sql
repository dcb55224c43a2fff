-- headwater.join_groups(namespace, node, incarnation, lease_ms, subscriber_ids, locked, use_locks)
-- Makes an instance a member of groups, or renews its membership: each member owns its share of a
-- group's partitions. Members whose membership is over, or whose session is gone, are removed. It
-- also takes the next step of a change of the number of partitions.
--   locked, holds_lock   whether this session holds its member lock, before and after, as in
--                        keep_leases
--   members              the members that are alive, sorted
--   halted               the owners of partitions must release them
-- Raises: WH001, WH002. Locks: rows that it changes, never waiting for owners; an advisory lock of
-- the session. Writes: members, where something changed; see settle_resize.
CREATE OR REPLACE FUNCTION headwater.join_groups(
    namespace text, node text, incarnation uuid, lease_ms bigint, subscriber_ids text[], locked boolean, use_locks boolean,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (subscriber_id text, partitions int, members uuid[], halted boolean, holds_lock boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(join_groups.namespace, caller, 'consumer');
    length interval := make_interval(secs => lease_ms / 1000.0);
    key    record := headwater_private.member_lock(join_groups.incarnation);
    at     timestamptz;
    other  record;
BEGIN
    IF coalesce(lease_ms NOT BETWEEN 1 AND 86400000, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid lease_ms %s', coalesce(lease_ms::text, 'NULL')),
            jsonb_build_object('what', 'lease_ms', 'value', lease_ms), 'a lease is 1 ms to 1 day');
    END IF;
    join_groups.holds_lock := coalesce(join_groups.locked, false);
    IF use_locks AND NOT join_groups.holds_lock THEN
        join_groups.holds_lock := pg_try_advisory_lock(key.high, key.low);
    END IF;
    FOREACH join_groups.subscriber_id IN ARRAY join_groups.subscriber_ids LOOP
        at := clock_timestamp();
        INSERT INTO headwater_private.members AS m (namespace_id, subscriber_id, incarnation, node, member_until, locked)
        SELECT ns.namespace_id, join_groups.subscriber_id, join_groups.incarnation, join_groups.node, at + length, join_groups.holds_lock
         WHERE NOT EXISTS (SELECT FROM headwater_private.members m
                            WHERE m.namespace_id = ns.namespace_id AND m.subscriber_id = join_groups.subscriber_id
                              AND m.incarnation = join_groups.incarnation AND m.member_until >= at + length * 2 / 3
                              AND m.locked = join_groups.holds_lock)
        ON CONFLICT (namespace_id, subscriber_id, incarnation) DO UPDATE
           SET member_until = excluded.member_until, locked = excluded.locked, node = excluded.node;
        FOR other IN SELECT m.incarnation, m.member_until, m.locked, k.high, k.low
                       FROM headwater_private.members m, headwater_private.member_lock(m.incarnation) k
                      WHERE m.namespace_id = ns.namespace_id AND m.subscriber_id = join_groups.subscriber_id
                        AND m.incarnation <> join_groups.incarnation
        LOOP
            IF other.member_until <= at
               OR (use_locks AND other.locked AND pg_try_advisory_xact_lock_shared(other.high, other.low)) THEN
                -- Check its present row again: the member may have come back.
                DELETE FROM headwater_private.members m
                 WHERE m.namespace_id = ns.namespace_id AND m.subscriber_id = join_groups.subscriber_id
                   AND m.incarnation = other.incarnation AND m.member_until = other.member_until;
            END IF;
        END LOOP;
        join_groups.halted := EXISTS (SELECT FROM headwater_private.subscribers s
                    WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = join_groups.subscriber_id AND s.partition = 0
                      AND s.resize_to IS NOT NULL)
            AND headwater_private.settle_resize(join_groups.namespace, join_groups.subscriber_id, join_groups.incarnation);
        SELECT s.partitions, s.resize_to IS NOT NULL AND (s.barrier IS NULL OR join_groups.halted) INTO join_groups.partitions, join_groups.halted
          FROM headwater_private.subscribers s
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = join_groups.subscriber_id AND s.partition = 0;
        CONTINUE WHEN NOT FOUND;
        join_groups.members := ARRAY(
            SELECT m.incarnation FROM headwater_private.members m
             WHERE m.namespace_id = ns.namespace_id AND m.subscriber_id = join_groups.subscriber_id ORDER BY m.incarnation);
        RETURN NEXT;
    END LOOP;
END
$$;
