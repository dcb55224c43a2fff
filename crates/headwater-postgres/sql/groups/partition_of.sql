-- headwater.partition_of(key, partitions)
-- Public: in docs/sql.md.
-- Returns the partition of a key: the first four bytes of its MD5, as a number, modulo the number
-- of partitions. An event has the partition of its key; without a key, of its stream; without a
-- stream, of its id.
-- Raises: WH002 (partitions). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.partition_of(key text, partitions int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF partitions < 1 THEN
        PERFORM headwater_private.fail('WH002', format('invalid partitions %s', partitions), jsonb_build_object('what', 'partitions', 'value', partitions),
            'partitions is 1 or more');
    END IF;
    RETURN ('x' || left(md5(convert_to(key, 'UTF8')), 8))::bit(32)::bigint % partitions;
END
$$;
