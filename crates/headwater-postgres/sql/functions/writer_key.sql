-- headwater_private.writer_key(namespace_id, low, foreseeable)
-- The advisory lock key of a transaction that may commit events of a namespace: 8 bits that say whose key it is, 24 of the
-- namespace's number, 32 of a value. Foreseeable (0x48): `low` is the low half of a value of the namespace's sequence. Else (0x49): it is
-- random. functions/enter_log.sql takes these locks, and functions/writers.sql reads them. pg_locks shows the upper half as classid.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.writer_key(namespace_id int, low bigint, foreseeable boolean DEFAULT true)
RETURNS bigint LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (CASE WHEN foreseeable THEN 72::bigint ELSE 73::bigint END << 56) | (namespace_id::bigint << 32) | (low & 4294967295);
END
$$;
