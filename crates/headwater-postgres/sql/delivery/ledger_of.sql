-- headwater_private.ledger_of(namespace_id, subscriber_id, partition, pending_gaps)
-- Returns the whole ledger of a partition: the ranges in chunks, then the ranges in its row. First,
-- last, first, last, …, in order.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.ledger_of(namespace_id int, subscriber_id text, partition int, pending_gaps bigint[])
RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    chunks bigint[];
BEGIN
    SELECT array_agg(u.sequence ORDER BY c.first_sequence, u.place) INTO chunks
      FROM headwater_private.ledger_chunks c CROSS JOIN LATERAL unnest(c.ranges) WITH ORDINALITY AS u(sequence, place)
     WHERE c.namespace_id = $1 AND c.subscriber_id = $2 AND c.partition = $3;
    RETURN coalesce(chunks, '{}') || $4;
END
$$;
