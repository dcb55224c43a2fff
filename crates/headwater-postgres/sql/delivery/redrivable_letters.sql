-- headwater_private.redrivable_letters(namespace_id, subscriber_id, max_letters, partition,
-- partitions)
-- Returns the dead letters of a partition that are to be delivered again now, in order: the letters
-- that are being redriven, and the first parked letter of each key, if no letter before it is dead.
-- It looks at one letter per parked key, however many are parked behind it.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.redrivable_letters(
    namespace_id int, subscriber_id text, max_letters int, partition int, partitions int
) RETURNS SETOF headwater_private.dead_letters LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    WITH RECURSIVE parked AS (
        (SELECT d.order_key, d.global_sequence FROM headwater_private.dead_letters d
          WHERE d.namespace_id = redrivable_letters.namespace_id AND d.subscriber_id = redrivable_letters.subscriber_id
            AND d.state = 'parked'
          ORDER BY d.order_key, d.global_sequence LIMIT 1)
        UNION ALL
        SELECT n.order_key, n.global_sequence FROM parked p CROSS JOIN LATERAL (
            SELECT d.order_key, d.global_sequence FROM headwater_private.dead_letters d
             WHERE d.namespace_id = redrivable_letters.namespace_id AND d.subscriber_id = redrivable_letters.subscriber_id
               AND d.state = 'parked' AND d.order_key > p.order_key
             ORDER BY d.order_key, d.global_sequence LIMIT 1) n
    ), redriving AS (
        SELECT d.global_sequence FROM headwater_private.dead_letters d
         WHERE d.namespace_id = redrivable_letters.namespace_id AND d.subscriber_id = redrivable_letters.subscriber_id
           AND d.state = 'redriving'
           AND (redrivable_letters.partitions = 1
                OR headwater.partition_of(d.order_key, redrivable_letters.partitions) = redrivable_letters.partition)
         ORDER BY d.global_sequence LIMIT redrivable_letters.max_letters
    ), released AS (
        SELECT p.global_sequence FROM parked p
         WHERE (redrivable_letters.partitions = 1
                OR headwater.partition_of(p.order_key, redrivable_letters.partitions) = redrivable_letters.partition)
           AND NOT EXISTS (SELECT FROM headwater_private.dead_letters d
                            WHERE d.namespace_id = redrivable_letters.namespace_id
                              AND d.subscriber_id = redrivable_letters.subscriber_id
                              AND d.order_key = p.order_key AND d.global_sequence < p.global_sequence AND d.state = 'dead')
    ), due AS (
        SELECT u.global_sequence
          FROM (SELECT r.global_sequence FROM redriving r UNION ALL SELECT r.global_sequence FROM released r) u
         ORDER BY u.global_sequence LIMIT redrivable_letters.max_letters
    )
    SELECT d.* FROM due JOIN headwater_private.dead_letters d
        ON d.namespace_id = redrivable_letters.namespace_id AND d.subscriber_id = redrivable_letters.subscriber_id
       AND d.global_sequence = due.global_sequence
     ORDER BY d.global_sequence;
END
$$;
