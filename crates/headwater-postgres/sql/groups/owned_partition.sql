-- headwater_private.owned_partition(namespace_id, subscriber_id, partition, term)
-- Returns the row of a partition to its owner: the caller that knows the present term.
-- Raises: WH002, WH011 if it has another term, WH012, WH013. Locks, writes: nothing, except that it
-- moves a ledger in chunks into the row, under the lock of the row.
CREATE OR REPLACE FUNCTION headwater_private.owned_partition(namespace_id int, subscriber_id text, partition int, term bigint)
RETURNS headwater_private.subscribers LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sub headwater_private.subscribers;
BEGIN
    SELECT s.* INTO sub FROM headwater_private.subscribers s
     WHERE s.namespace_id = owned_partition.namespace_id AND s.subscriber_id = owned_partition.subscriber_id
       AND s.partition = owned_partition.partition AND s.term = owned_partition.term AND s.mode <> 'shared';
    IF FOUND THEN
        IF EXISTS (SELECT FROM headwater_private.ledger_chunks c
                    WHERE c.namespace_id = sub.namespace_id AND c.subscriber_id = sub.subscriber_id AND c.partition = sub.partition) THEN
            -- Cursors carry the whole ledger, so move it into the row. Nodes can read it there too.
            -- Take the lock first: an UPDATE that waited would combine the chunks of its older
            -- snapshot with the newer row.
            PERFORM FROM headwater_private.subscribers s
              WHERE s.namespace_id = sub.namespace_id AND s.subscriber_id = sub.subscriber_id AND s.partition = sub.partition
                AND s.term = owned_partition.term
                FOR NO KEY UPDATE;
            IF NOT FOUND THEN
                PERFORM headwater_private.partition_lost(owned_partition.subscriber_id, owned_partition.partition, owned_partition.term,
                    'it is not owned in this term any more');
            END IF;
            UPDATE headwater_private.subscribers s
               SET pending_gaps = headwater_private.ledger_of(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps)
             WHERE s.namespace_id = sub.namespace_id AND s.subscriber_id = sub.subscriber_id AND s.partition = sub.partition
            RETURNING s.* INTO sub;
            DELETE FROM headwater_private.ledger_chunks c
             WHERE c.namespace_id = sub.namespace_id AND c.subscriber_id = sub.subscriber_id AND c.partition = sub.partition;
        END IF;
        RETURN sub;
    END IF;
    IF owned_partition.term IS NULL OR owned_partition.partition IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'a partition and its term are needed',
            jsonb_build_object('what', CASE WHEN owned_partition.term IS NULL THEN 'term' ELSE 'partition' END, 'value', NULL),
            'give them as headwater.lease_partitions answered them');
    END IF;
    PERFORM headwater_private.ordered_mode(owned_partition.namespace_id, owned_partition.subscriber_id);
    PERFORM headwater_private.partition_lost(owned_partition.subscriber_id, owned_partition.partition, owned_partition.term,
        'it is not owned in this term any more');
END
$$;
