-- headwater.resize_group(namespace, subscriber_id, partitions)
-- Public: in docs/sql.md.
-- Changes the number of partitions of a group, which may be running. Order per key holds: the owners give their partitions up; those then go on to
-- where the furthest of them had come, the barrier; when all are there, the new ones begin from it. settle_resize takes these steps, whenever a
-- member renews its membership; here the first are taken at once, which is all of it for a group that nobody runs and that stands even.
-- Asked again for the same number, it takes the next step, if it is time for it.
-- Raises: WH001, WH002, WH012, WH013 while a change to another number is under way, or if it is no group. Locks: its rows. Writes: its rows.
CREATE OR REPLACE FUNCTION headwater.resize_group(namespace text, subscriber_id text, partitions int)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ns  headwater.namespaces := headwater.namespace_row(resize_group.namespace);
    sub headwater.subscribers;
BEGIN
    IF coalesce(resize_group.partitions NOT BETWEEN 1 AND 1024, true) THEN
        PERFORM headwater.fail('WH002', format('invalid partitions %s', coalesce(resize_group.partitions::text, 'NULL')),
            jsonb_build_object('what', 'partitions', 'value', resize_group.partitions), 'a group has 1 to 1024 partitions');
    END IF;
    PERFORM headwater.lock_subscribers(ns.namespace_id, coalesce(resize_group.subscriber_id, ''));
    SELECT s.* INTO sub FROM headwater.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = resize_group.subscriber_id AND s.partition = 0;
    IF sub.mode <> 'partitioned' THEN
        PERFORM headwater.fail('WH013', format('subscriber %L is %s, not partitioned', sub.subscriber_id, sub.mode),
            jsonb_build_object('subscriber_id', sub.subscriber_id, 'mode', sub.mode), 'only a partitioned subscriber has partitions to change');
    END IF;
    IF sub.resize_to IS NULL AND sub.partitions = resize_group.partitions THEN
        RETURN;
    END IF;
    IF sub.resize_to <> resize_group.partitions THEN
        PERFORM headwater.fail('WH013',
            format('subscriber %L is being changed to %s partitions already', sub.subscriber_id, sub.resize_to),
            jsonb_build_object('subscriber_id', sub.subscriber_id, 'resize_to', sub.resize_to),
            'wait until that is done: its instances must run for it to go on');
    END IF;
    IF sub.resize_to IS NULL THEN
        UPDATE headwater.subscribers s SET resize_to = resize_group.partitions
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = resize_group.subscriber_id;
    END IF;
    PERFORM headwater.settle_resize(resize_group.namespace, resize_group.subscriber_id);
    PERFORM headwater.settle_resize(resize_group.namespace, resize_group.subscriber_id);
END
$$;
