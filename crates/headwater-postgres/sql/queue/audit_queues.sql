-- headwater.audit_queues(namespace, subscriber_ids)
-- Public: in docs/sql.md.
-- Looks for contradictions in the queues of shared subscribers (NULL: all), in one snapshot. Every
-- event at or below a queue's frontier is settled, unless it is in a claim, a retry, an open range
-- or a gap. So no event may be in two of these, and none of these may hold an event after the
-- frontier. Reads what is claimed or waits, not the log. Returns one row per subscriber and
-- problem, with the first event, the last event, and the number of events:
--   held_twice           in two claims or retries
--   held_and_open        in a claim or retry, and in an open range: it would be claimed again
--   beyond_frontier      in a claim, retry, open range or gap, and after the frontier: it would be
--                        claimed again
--   frontier_beyond_log  the frontier has passed sequences that the log does not have yet: their
--                        events would be lost
--   letter_forgotten     a redriven dead letter is marked as queued, but is in no claim or retry
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.audit_queues(namespace text, subscriber_ids text[] DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (subscriber_id text, problem text, first_sequence bigint, last_sequence bigint, events bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(audit_queues.namespace, caller, 'consumer');
BEGIN
    RETURN QUERY
    WITH queues AS MATERIALIZED (
        SELECT s.subscriber_id, (n.state).frontier AS frontier, s.position AS began_at,
               (n.state).gaps AS gaps, (n.state).open AS open
          FROM headwater_private.subscribers s
          JOIN headwater_private.queue_states n ON n.namespace_id = s.namespace_id AND n.subscriber_id = s.subscriber_id
         WHERE s.namespace_id = ns.namespace_id AND s.partition = 0 AND s.mode = 'shared'
           AND (audit_queues.subscriber_ids IS NULL OR s.subscriber_id = ANY (audit_queues.subscriber_ids))
    ), held AS MATERIALIZED (
        SELECT c.subscriber_id, c.of_letter, h.sequence
          FROM queues q
          JOIN headwater_private.claims c ON c.namespace_id = ns.namespace_id AND c.subscriber_id = q.subscriber_id AND NOT c.done
         CROSS JOIN LATERAL unnest(headwater_private.claimed_sequences(c.namespace_id, c.first_sequence, c.last_sequence, c.sequences,
                                                               c.event_types)) AS h(sequence)
         UNION ALL
        SELECT r.subscriber_id, r.of_letter, h.sequence
          FROM queues q
          JOIN headwater_private.retries r ON r.namespace_id = ns.namespace_id AND r.subscriber_id = q.subscriber_id
         CROSS JOIN LATERAL unnest(r.sequences) AS h(sequence)
    ), passed AS (
        SELECT q.subscriber_id, o.last_sequence FROM queues q CROSS JOIN LATERAL unnest(q.open) o
         UNION ALL
        SELECT q.subscriber_id, g.last_sequence FROM queues q CROSS JOIN LATERAL unnest(q.gaps) AS g(last_sequence)
         UNION ALL
        SELECT h.subscriber_id, h.sequence FROM held h WHERE NOT h.of_letter
    ), problems AS (
        SELECT h.subscriber_id, 'held_twice' AS problem, h.sequence FROM held h
         GROUP BY h.subscriber_id, h.of_letter, h.sequence HAVING count(*) > 1
         UNION ALL
        SELECT h.subscriber_id, 'held_and_open', h.sequence
          FROM held h
          JOIN queues q ON q.subscriber_id = h.subscriber_id AND q.open <> '{}'
         CROSS JOIN LATERAL headwater_private.events_at(ns.namespace_id, ARRAY[h.sequence]) e
         WHERE NOT h.of_letter
           AND EXISTS (SELECT FROM unnest(q.open) o
                        WHERE o.event_type = e.event_type AND h.sequence BETWEEN o.first_sequence AND o.last_sequence)
         UNION ALL
        SELECT p.subscriber_id, 'beyond_frontier', p.last_sequence
          FROM passed p JOIN queues q ON q.subscriber_id = p.subscriber_id
         WHERE p.last_sequence > q.frontier
         UNION ALL
        -- A queue may begin ahead of the log. Events in flight there are in its gaps.
        SELECT q.subscriber_id, 'frontier_beyond_log', q.frontier
          FROM queues q
         CROSS JOIN (SELECT headwater_private.newest_sequence(ns) AS last) l
         WHERE q.frontier > greatest(l.last, ns.trimmed_to, q.began_at, q.gaps[cardinality(q.gaps)])
         UNION ALL
        SELECT d.subscriber_id, 'letter_forgotten', d.global_sequence
          FROM queues q
          JOIN headwater_private.dead_letters d ON d.namespace_id = ns.namespace_id AND d.subscriber_id = q.subscriber_id
         WHERE d.state = 'redriving' AND d.queued
           AND NOT EXISTS (SELECT FROM held h WHERE h.subscriber_id = d.subscriber_id AND h.of_letter AND h.sequence = d.global_sequence)
    )
    SELECT p.subscriber_id, p.problem, min(p.sequence), max(p.sequence), count(*)
      FROM problems p GROUP BY p.subscriber_id, p.problem ORDER BY p.subscriber_id, p.problem;
END
$$;
