-- headwater_private.check_subscriber()
-- The trigger of headwater_private.subscribers: it checks the columns that checkpoints do not
-- write. As check constraints of the table, they would be parsed for each checkpoint.
-- Raises: 23514. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_subscriber()
RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (octet_length(NEW.subscriber_id) BETWEEN 1 AND 255 AND NEW.partition >= 0 AND NEW.partition < NEW.partitions
        AND cardinality(NEW.audit_ledger) % 2 = 0 AND NEW.mode IN ('exclusive', 'partitioned', 'shared')
        AND NEW.partitions BETWEEN 1 AND 1024 AND coalesce(NEW.resize_to BETWEEN 1 AND 1024, true)
        AND (NEW.event_types IS NULL OR NEW.mode = 'shared' AND cardinality(NEW.event_types) BETWEEN 1 AND 10000
                                        AND array_ndims(NEW.event_types) = 1 AND array_position(NEW.event_types, NULL) IS NULL)
        AND (NEW.barrier IS NULL OR NEW.barrier >= 0 AND NEW.resize_to IS NOT NULL)
        AND (NEW.mode = 'partitioned' OR NEW.partitions = 1 AND NEW.resize_to IS NULL)) IS NOT TRUE THEN
        RAISE check_violation USING MESSAGE = format('this cannot be a subscriber: %s', NEW), TABLE = 'subscribers', SCHEMA = 'headwater_private';
    END IF;
    RETURN NULL;
END
$$;
