-- headwater_private.subscriber_lock(namespace, subscriber_id, partition)
-- The two keys of the advisory lock that the session of a partition's owner holds: the first 64 bits of an MD5. The partition is hashed by itself, with a
-- character before it that no subscriber's id holds, so that no id looks like another's partition.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.subscriber_lock(
    namespace text, subscriber_id text, partition int, OUT high int, OUT low int
) LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ('x' || substr(d.digest, 1, 8))::bit(32)::int, ('x' || substr(d.digest, 9, 8))::bit(32)::int
      FROM (SELECT md5(namespace || ':' || subscriber_id || CASE partition WHEN 0 THEN '' ELSE E'\n' || partition END) AS digest) d
$$;
