-- headwater_private.is_idle(namespace_id, subscriber_id, tail_after, tail_from, types, likes)
-- Returns whether a queue has nothing to claim and nothing to record. take_claims asks this before
-- it takes the queue's lock, so a claim that finds nothing neither waits nor writes. Events that
-- another session is claiming at the same time do not look claimed here. That can only make the
-- answer false.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.is_idle(
    namespace_id int, subscriber_id text, tail_after bigint, tail_from timestamptz, types text[], likes text[]
) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    frontier bigint;
BEGIN
    SELECT (c.state).frontier INTO frontier
      FROM (SELECT c.state FROM headwater_private.claims c
             WHERE c.namespace_id = is_idle.namespace_id AND c.subscriber_id = is_idle.subscriber_id
             ORDER BY c.number DESC LIMIT 1) c
     CROSS JOIN LATERAL (SELECT clock_timestamp() AS now, greatest((c.state).moment, (c.state).expired_from, (c.state).due_from) AS looked_to) m
     WHERE (c.state).gaps = '{}' AND (c.state).skipped = '{}'
       AND ((c.state).known > (c.state).frontier) IS NOT TRUE
       AND m.now >= m.looked_to - interval '1 s' AND greatest(m.now, m.looked_to) < (c.state).look_at
       AND ((c.state).open = '{}'
            OR (types IS NOT NULL OR likes IS NOT NULL)
               AND NOT EXISTS (SELECT FROM unnest((c.state).open) o
                                WHERE CASE WHEN likes IS NULL THEN o.event_type = ANY (types) ELSE o.event_type LIKE ANY (likes) END));
    IF NOT FOUND THEN
        RETURN false;
    ELSIF frontier < is_idle.tail_after THEN
        RETURN headwater_private.next_recorded_at(is_idle.namespace_id, frontier) IS NULL;
    END IF;
    -- Usually this statement is enough. ORDER BY makes it use the index that has this order.
    PERFORM FROM headwater_private.tail_events() e
      WHERE e.namespace_id = is_idle.namespace_id AND e.global_sequence > frontier
      ORDER BY e.global_sequence LIMIT 1;
    IF FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM headwater_private.events e
      WHERE e.namespace_id = is_idle.namespace_id AND e.global_sequence > frontier AND e.recorded_at >= is_idle.tail_from
      ORDER BY e.global_sequence LIMIT 1;
    RETURN NOT FOUND;
END
$$;
