-- headwater_private.ledger_size(namespace_id, subscriber_id, partition, pending_gaps)
-- Returns how many sequences are in the ledger of a partition.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.ledger_size(namespace_id int, subscriber_id text, partition int, pending_gaps bigint[])
RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN coalesce((SELECT sum(c.size) FROM headwater_private.ledger_chunks c
                      WHERE c.namespace_id = $1 AND c.subscriber_id = $2 AND c.partition = $3), 0)
         + coalesce((SELECT sum(CASE WHEN u.place % 2 = 0 THEN u.sequence + 1 ELSE -u.sequence END)
                       FROM unnest($4) WITH ORDINALITY AS u(sequence, place)), 0);
END
$$;
