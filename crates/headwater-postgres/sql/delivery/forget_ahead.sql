-- headwater.forget_ahead(namespace_id, subscriber_id, partition)
-- Deletes the notes of bundles that were settled ahead, once the checkpoint has passed all their
-- events and none of them is in the ledger. Notes of partitions that existed before the number of
-- partitions changed apply to all present partitions (-1). Such a note stays until each partition
-- has passed it.
-- Raises: WH001, WH015. Locks, writes: rows of settled_ahead.
CREATE OR REPLACE FUNCTION headwater.forget_ahead(
    namespace_id int, subscriber_id text, partition int, caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    DELETE FROM headwater_private.settled_ahead a
     WHERE a.namespace_id = $1 AND a.subscriber_id = $2 AND a.partition IN ($3, -1)
       AND NOT EXISTS (SELECT FROM headwater_private.subscribers s
                        WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND (a.partition = -1 OR s.partition = a.partition)
                          AND (s.position < a.sequences[cardinality(a.sequences)]
                               OR EXISTS (SELECT FROM unnest(a.sequences) AS q(sequence)
                                           WHERE headwater_private.ledger_holds(
                                                     headwater_private.ledger_cover(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps),
                                                     ARRAY[q.sequence, q.sequence]))));
END
$$;
