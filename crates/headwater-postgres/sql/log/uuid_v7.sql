-- headwater.uuid_v7()
-- Public: in docs/sql.md.
-- Returns a new time-ordered id (RFC 9562, version 7) by this server's clock. Servers before 18
-- have no such function.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.uuid_v7()
RETURNS uuid LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Put 48 bits of milliseconds over the front of a version 4 id, and turn its version bits from
    -- 0100 to 0111. No SELECT: plpgsql evaluates a plain expression without the machinery of a
    -- query.
    RETURN encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
               PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
               52, 1), 53, 1), 'hex')::uuid;
END
$$;
