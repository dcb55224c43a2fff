-- headwater_private.is_idle(namespace_id, subscriber_id, tail_after, tail_from, types, likes)
-- Whether a queue has nothing to claim and nothing to note: asked before its lock is taken, so that who finds nothing neither waits nor writes. What
-- another is claiming at the same time is not seen as claimed, and only makes this answer no.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.is_idle(
    namespace_id int, subscriber_id text, tail_after bigint, tail_from timestamptz, types text[], likes text[]
) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM headwater_private.queue_states n
         CROSS JOIN LATERAL (SELECT clock_timestamp() AS now, greatest((n.state).moment, (n.state).expired_from, (n.state).due_from) AS looked_to) m
         WHERE n.namespace_id = is_idle.namespace_id AND n.subscriber_id = is_idle.subscriber_id AND n.number IS NOT NULL
           AND (n.state).gaps = '{}' AND (n.state).skipped = '{}' 
           AND ((n.state).known > (n.state).frontier) IS NOT TRUE
           AND m.now >= m.looked_to - interval '1 s' AND greatest(m.now, m.looked_to) < (n.state).look_at
           AND ((n.state).open = '{}'
                OR (types IS NOT NULL OR likes IS NOT NULL)
                   AND NOT EXISTS (SELECT FROM unnest((n.state).open) o
                                    WHERE CASE WHEN likes IS NULL THEN o.event_type = ANY (types) ELSE o.event_type LIKE ANY (likes) END))
           AND CASE WHEN (n.state).frontier < is_idle.tail_after
                    THEN headwater_private.next_recorded_at(is_idle.namespace_id, (n.state).frontier) IS NULL
                    -- In order, so that the index is used that has it.
                    ELSE (SELECT e.global_sequence FROM headwater_private.events e
                           WHERE e.namespace_id = is_idle.namespace_id AND e.global_sequence > (n.state).frontier AND e.recorded_at >= is_idle.tail_from
                           ORDER BY e.global_sequence LIMIT 1) IS NULL END);
END
$$;
