-- headwater_private.partition_lost(subscriber_id, partition, term, why)
-- Refuses a caller that no longer owns a partition.
-- Raises: WH011, always. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.partition_lost(subscriber_id text, partition int, term bigint, why text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.fail('WH011',
        format('partition %s of subscriber %L: %s', coalesce(partition::text, 'NULL'), left(subscriber_id, 80), why),
        jsonb_build_object('subscriber_id', left(subscriber_id, 255), 'partition', partition, 'term', term),
        'roll back, drop the events at hand, and ask headwater.lease_partitions what is yours now');
END
$$;
