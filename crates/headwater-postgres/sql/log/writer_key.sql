-- headwater_private.writer_key(namespace_id, low, foreseeable)
-- Returns the advisory lock key of a transaction that may commit events of a namespace: 8 bits that
-- mark the key as ours, 24 bits of the namespace's number, 32 bits of a value. If foreseeable
-- (0x48), `low` is the low half of a value of the namespace's sequence. Otherwise (0x49) it is
-- random. enter_log takes these locks, and writers reads them. pg_locks shows the upper half as
-- classid.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.writer_key(namespace_id int, low bigint, foreseeable boolean DEFAULT true)
RETURNS bigint LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (CASE WHEN foreseeable THEN 72::bigint ELSE 73::bigint END << 56) | (namespace_id::bigint << 32) | (low & 4294967295);
END
$$;
