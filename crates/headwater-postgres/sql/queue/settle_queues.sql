-- headwater_private.settle_queues(ns, only_subscriber, max_scan)
-- Does what headwater.settle_untaken does, without its checks.
-- Raises: WH006. Locks: the queues that nobody else has locked. Writes: claims, retries, dead
-- letters.
CREATE OR REPLACE FUNCTION headwater_private.settle_queues(ns headwater_private.namespaces, only_subscriber text, max_scan bigint)
RETURNS TABLE (subscriber_id text, settled bigint, letters bigint, more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.require_proof();
    FOR settle_queues.subscriber_id IN
        SELECT s.subscriber_id FROM headwater_private.subscribers s
         WHERE s.namespace_id = ns.namespace_id AND s.partition = 0 AND s.mode = 'shared' AND s.event_types IS NOT NULL
           AND (only_subscriber IS NULL OR s.subscriber_id = only_subscriber)
         ORDER BY s.subscriber_id
    LOOP
        -- After a crash, the row does not exist until somebody claims.
        PERFORM FROM headwater_private.queues l
          WHERE l.namespace_id = ns.namespace_id AND l.subscriber_id = settle_queues.subscriber_id
            FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            INSERT INTO headwater_private.queues (namespace_id, subscriber_id) VALUES (ns.namespace_id, settle_queues.subscriber_id)
            ON CONFLICT DO NOTHING;
            CONTINUE WHEN NOT FOUND;
        END IF;
        SELECT q.settled, q.letters, q.more INTO settle_queues.settled, settle_queues.letters, settle_queues.more
          FROM headwater_private.settle_queue(ns, settle_queues.subscriber_id, max_scan) q;
        RETURN NEXT;
    END LOOP;
END
$$;
