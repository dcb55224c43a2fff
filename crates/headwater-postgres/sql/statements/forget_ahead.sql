-- Deletes what was noted of groups that the checkpoint has passed: all of their events, and none of them is in the ledger.
DELETE FROM headwater.settled_ahead a USING headwater.subscribers s
 WHERE a.namespace_id = $1 AND a.subscriber_id = $2 AND a.partition = $3
   AND s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $3
   AND a.sequences[cardinality(a.sequences)] <= s.position
   AND NOT EXISTS (SELECT FROM unnest(a.sequences) AS q(sequence)
                    WHERE s.pending_gaps <> '{}' AND headwater.ledger_holds(s.pending_gaps, ARRAY[q.sequence, q.sequence]))
