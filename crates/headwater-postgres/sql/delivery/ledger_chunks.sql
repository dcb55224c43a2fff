-- headwater.ledger_chunks(namespace_id, subscriber_id, partition)
-- Returns the part of a partition's ledger that is not in its row: the keys of the chunks, how many
-- numbers each chunk has, and these numbers: first, last, first, last, …
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.ledger_chunks(
    namespace_id int, subscriber_id text, partition int, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (chunk_keys bigint[], chunk_lengths int[], chunk_ranges bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT coalesce(array_agg(c.first_sequence ORDER BY c.first_sequence), '{}'),
           coalesce(array_agg(cardinality(c.ranges) ORDER BY c.first_sequence), '{}'), headwater_private.ledger_of($1, $2, $3, '{}')
      FROM headwater_private.ledger_chunks c
     WHERE c.namespace_id = $1 AND c.subscriber_id = $2 AND c.partition = $3;
END
$$;
