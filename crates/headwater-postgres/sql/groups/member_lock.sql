-- headwater_private.member_lock(incarnation)
-- Returns the two keys of the advisory lock that the session of a group's member holds.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.member_lock(incarnation uuid, OUT high int, OUT low int) LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.high, k.low FROM headwater_private.subscriber_lock('', 'member:' || incarnation, 0) k
$$;
