-- headwater_private.subscriber_lock(namespace, subscriber_id, partition)
-- Returns the two keys of the advisory lock that the session of a partition's owner holds: the
-- first 64 bits of an MD5. A character that no subscriber's id holds separates the partition from
-- the id, so no id looks like a partition of another subscriber.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.subscriber_lock(
    namespace text, subscriber_id text, partition int, OUT high int, OUT low int
) LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ('x' || substr(d.digest, 1, 8))::bit(32)::int, ('x' || substr(d.digest, 9, 8))::bit(32)::int
      FROM (SELECT md5(namespace || ':' || subscriber_id || CASE partition WHEN 0 THEN '' ELSE E'\n' || partition END) AS digest) d
$$;
