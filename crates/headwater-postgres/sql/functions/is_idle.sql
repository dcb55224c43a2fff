-- headwater_private.is_idle(namespace_id, subscriber_id, tail_after, tail_from)
-- Whether a queue has nothing to claim and nothing to note: asked before its lock is taken, so that who finds nothing neither waits nor writes. What
-- another is claiming at the same time is not seen as claimed, and only makes this answer no.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.is_idle(namespace_id int, subscriber_id text, tail_after bigint, tail_from timestamptz)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM headwater_private.newest_state(is_idle.namespace_id, is_idle.subscriber_id) n
         WHERE n.frontier >= is_idle.tail_after AND n.moment < n.look_at AND (n.known > n.frontier) IS NOT TRUE
           -- In order, so that the index is used that has it.
           AND (SELECT e.global_sequence FROM headwater_private.events e
                 WHERE e.namespace_id = is_idle.namespace_id AND e.global_sequence > n.frontier AND e.recorded_at >= is_idle.tail_from
                 ORDER BY e.global_sequence LIMIT 1) IS NULL);
END
$$;
