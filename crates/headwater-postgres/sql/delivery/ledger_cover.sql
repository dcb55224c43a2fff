-- headwater_private.ledger_cover(namespace_id, subscriber_id, partition, pending_gaps)
-- Returns the ledger of a partition in a short form: one range per chunk, which covers all ranges
-- of that chunk, then the ranges in the partition's row. It is for callers that display the ledger,
-- or only ask what may be in it. A ledger without chunks is returned unchanged.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.ledger_cover(namespace_id int, subscriber_id text, partition int, pending_gaps bigint[])
RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    chunks bigint[];
BEGIN
    SELECT array_agg(u.sequence ORDER BY c.first_sequence, u.sequence) INTO chunks
      FROM headwater_private.ledger_chunks c
     CROSS JOIN LATERAL (VALUES (c.ranges[1]), (c.ranges[cardinality(c.ranges)])) AS u(sequence)
     WHERE c.namespace_id = $1 AND c.subscriber_id = $2 AND c.partition = $3;
    RETURN coalesce(chunks, '{}') || $4;
END
$$;
