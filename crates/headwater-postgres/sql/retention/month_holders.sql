-- headwater_private.month_holders(namespace, first_sequence, last_sequence)
-- Lists the subscribers that still need events of a range, one row per partition, and why. Dead
-- letters keep their event, so they hold nothing. But a queue delivers redriven letters from the
-- log.
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.month_holders(namespace text, first_sequence bigint, last_sequence bigint)
RETURNS TABLE (subscriber_id text, partition int, reached bigint, reason text) LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.namespace_row(month_holders.namespace);
BEGIN
    RETURN QUERY
    SELECT s.subscriber_id, s.partition, s.position,
           CASE WHEN s.position < month_holders.last_sequence THEN format('stands at %s', s.position) || CASE WHEN s.paused THEN ', paused' ELSE '' END
                ELSE format('waits for a gap at %s', g.first) END
      FROM headwater_private.subscribers s
      LEFT JOIN LATERAL (SELECT min(l.ranges[i]) AS first
                           FROM (SELECT headwater_private.ledger_of(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps) AS ranges OFFSET 0) l
                          CROSS JOIN LATERAL generate_series(1, cardinality(l.ranges), 2) AS i
                          WHERE l.ranges[i] <= month_holders.last_sequence
                            AND l.ranges[i + 1] >= month_holders.first_sequence) g ON true
     WHERE s.namespace_id = ns.namespace_id AND s.mode <> 'shared'
       AND (s.position < month_holders.last_sequence OR g.first IS NOT NULL)
     UNION ALL
    SELECT q.subscriber_id, 0, q.position,
           CASE WHEN q.frontier < month_holders.last_sequence THEN format('was claimed up to %s', q.frontier)
                ELSE format('has claims, retries or events left behind above %s', q.position) END
      FROM headwater.queue_status(month_holders.namespace) q
     WHERE q.position < month_holders.last_sequence
     UNION ALL
    SELECT d.subscriber_id, 0, min(d.global_sequence) - 1, format('delivers %s dead letters again', count(*))
      FROM headwater_private.dead_letters d
      JOIN headwater_private.subscribers s ON s.namespace_id = d.namespace_id AND s.subscriber_id = d.subscriber_id AND s.partition = 0
       AND s.mode = 'shared'
     WHERE d.namespace_id = ns.namespace_id AND d.state = 'redriving'
       AND d.global_sequence BETWEEN month_holders.first_sequence AND month_holders.last_sequence
     GROUP BY d.subscriber_id;
END
$$;
