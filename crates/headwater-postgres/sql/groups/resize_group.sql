-- headwater.resize_group(namespace, subscriber_id, partitions)
-- Public: in docs/sql.md.
-- Changes the number of partitions of a group, which may be running. Order per key holds: first the
-- owners release their partitions. Then all partitions continue up to the barrier, which is how far
-- the furthest of them had come. When all have reached it, the new partitions begin from there.
-- settle_resize takes these steps whenever a member renews its membership. This call takes the
-- first steps at once, which completes the change for a group that nobody runs and whose partitions
-- all stand at the same place. A second call with the same number takes the next step, if its time
-- has come.
-- Raises: WH001, WH002, WH012, WH013 while a change to another number is under way, or if it is not
-- a group. Locks: its rows. Writes: its rows.
CREATE OR REPLACE FUNCTION headwater.resize_group(namespace text, subscriber_id text, partitions int, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns  headwater_private.namespaces := headwater_private.open_namespace(resize_group.namespace, caller, 'consumer');
    sub headwater_private.subscribers;
BEGIN
    IF coalesce(resize_group.partitions NOT BETWEEN 1 AND 1024, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid partitions %s', coalesce(resize_group.partitions::text, 'NULL')),
            jsonb_build_object('what', 'partitions', 'value', resize_group.partitions), 'a group has 1 to 1024 partitions');
    END IF;
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, coalesce(resize_group.subscriber_id, ''));
    SELECT s.* INTO sub FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = resize_group.subscriber_id AND s.partition = 0;
    IF sub.mode <> 'partitioned' THEN
        PERFORM headwater_private.fail('WH013', format('subscriber %L is %s, not partitioned', sub.subscriber_id, sub.mode),
            jsonb_build_object('subscriber_id', sub.subscriber_id, 'mode', sub.mode), 'only a partitioned subscriber has partitions to change');
    END IF;
    IF sub.resize_to IS NULL AND sub.partitions = resize_group.partitions THEN
        RETURN;
    END IF;
    IF sub.resize_to <> resize_group.partitions THEN
        PERFORM headwater_private.fail('WH013',
            format('subscriber %L is being changed to %s partitions already', sub.subscriber_id, sub.resize_to),
            jsonb_build_object('subscriber_id', sub.subscriber_id, 'resize_to', sub.resize_to),
            'wait until that is done: its instances must run for it to go on');
    END IF;
    IF sub.resize_to IS NULL THEN
        UPDATE headwater_private.subscribers s SET resize_to = resize_group.partitions
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = resize_group.subscriber_id;
    END IF;
    PERFORM headwater_private.settle_resize(resize_group.namespace, resize_group.subscriber_id);
END
$$;
