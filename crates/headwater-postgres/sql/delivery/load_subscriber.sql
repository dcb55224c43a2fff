-- headwater.load_subscriber(namespace_id, subscriber_id, partition)
-- Returns where a partition of a subscriber stands:
-- - parked_keys: the keys that are parked.
-- - buried_sequences, buried_ids: events that have a letter although the checkpoint has not passed
--   them (they are above the position, or in the ledger), whatever happened to the letter. A letter
--   that was handled before the last reset does not count, because the reset asked to handle its
--   event again. The list also has the events of bundles that were settled ahead of the checkpoint,
--   by this partition, or behind the barrier by partitions that existed before their number changed
--   (-1). These have no id.
-- - pending_gaps: the end of the ledger. headwater.ledger_chunks returns what comes before it.
-- - repairs: how many times the log was repaired. What was read of it before is no longer valid.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.load_subscriber(
    namespace_id int, subscriber_id text, partition int, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (term bigint, "position" bigint, pending_gaps bigint[], paused boolean, partitions int,
               barrier bigint, repairs bigint, parked_keys text[], buried_sequences bigint[], buried_ids uuid[]) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT s.term, s.position, s.pending_gaps, s.paused, s.partitions, s.barrier,
           (SELECT count(*) FROM headwater_private.poison_events p WHERE p.namespace_id = s.namespace_id AND p.redelivered) AS repairs,
           ARRAY(SELECT DISTINCT d.order_key FROM headwater_private.dead_letters d
                  WHERE d.namespace_id = s.namespace_id AND d.subscriber_id = s.subscriber_id
                    AND d.state IN ('dead', 'parked', 'redriving') AND (d.parks_key OR d.state = 'parked')
                  ORDER BY d.order_key) AS parked_keys,
           coalesce(buried.sequences, '{}'), coalesce(buried.event_ids, '{}')
      FROM headwater_private.subscribers s
     -- The covering ranges are enough: what is not in the ledger is not delivered, with a letter or
     -- without.
     CROSS JOIN LATERAL (SELECT headwater_private.ledger_cover(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps) AS ranges OFFSET 0) l
     CROSS JOIN LATERAL (
            SELECT array_agg(b.sequence) AS sequences, array_agg(b.event_id) AS event_ids FROM (
                SELECT d.global_sequence AS sequence, d.event_id FROM headwater_private.dead_letters d
                 WHERE d.namespace_id = s.namespace_id AND d.subscriber_id = s.subscriber_id AND d.global_sequence > s.position
                   AND (d.state <> 'redriven' OR d.term >= s.began_in_term)
                 UNION
                SELECT d.global_sequence, d.event_id FROM generate_series(1, cardinality(l.ranges), 2) AS i
                  JOIN headwater_private.dead_letters d ON d.namespace_id = s.namespace_id AND d.subscriber_id = s.subscriber_id
                   AND d.global_sequence BETWEEN l.ranges[i] AND l.ranges[i + 1]
                 WHERE d.state <> 'redriven' OR d.term >= s.began_in_term
                 UNION
                SELECT q.sequence, NULL FROM headwater_private.settled_ahead a CROSS JOIN LATERAL unnest(a.sequences) AS q(sequence)
                 WHERE a.namespace_id = s.namespace_id AND a.subscriber_id = s.subscriber_id AND a.partition IN (s.partition, -1)
                   AND (q.sequence > s.position OR headwater_private.ledger_holds(l.ranges, ARRAY[q.sequence, q.sequence]))
                 ORDER BY 1) b) buried
     WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $3;
END
$$;
