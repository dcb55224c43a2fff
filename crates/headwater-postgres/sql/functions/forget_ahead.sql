-- headwater.forget_ahead(namespace_id, subscriber_id, partition)
-- Deletes what was noted of groups that the checkpoint has passed: all of their events, and none of them is in the ledger. What partitions noted that
-- were there before a change of their number is for all of the present ones (-1), and stays until each has passed it.
-- Raises: WH001, WH015. Locks: the rows that it writes. Writes: as it says.
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
