-- headwater_private.keep_ledger(namespace_id, subscriber_id, partition, ledger)
-- Replaces the ledger of a partition. It writes the front of a long ledger in chunks, and returns
-- the end, which the caller writes in the partition's row.
-- Raises: nothing. Locks: the rows that it writes. Writes: ledger_chunks.
CREATE OR REPLACE FUNCTION headwater_private.keep_ledger(namespace_id int, subscriber_id text, partition int, ledger bigint[])
RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- 256 ranges, as in gaps.rs.
    chunk CONSTANT int := 512;
    kept  int := greatest((cardinality($4) - 1) / chunk * chunk, 0);
BEGIN
    DELETE FROM headwater_private.ledger_chunks c WHERE c.namespace_id = $1 AND c.subscriber_id = $2 AND c.partition = $3;
    INSERT INTO headwater_private.ledger_chunks (namespace_id, subscriber_id, partition, first_sequence, size, ranges)
    SELECT $1, $2, $3, r.ranges[1], headwater_private.ledger_size($1, $2, -2, r.ranges), r.ranges
      FROM (SELECT $4[i : i + chunk - 1] AS ranges FROM generate_series(1, kept, chunk) AS i) r;
    RETURN $4[kept + 1 :];
END
$$;
