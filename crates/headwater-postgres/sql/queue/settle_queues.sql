-- headwater_private.settle_queues(ns, only_subscriber, max_scan)
-- Does what headwater.settle_untaken does, without its checks.
-- Each queue that it handles stays locked until the transaction ends, and its claims wait for that.
-- So max_scan is for all queues of a call together, and once that is used up, no other queue is
-- locked. The queue that is furthest behind comes first, so that each has its turn.
-- Raises: WH006. Locks: the queues that nobody else has locked. Writes: claims, retries, dead
-- letters.
CREATE OR REPLACE FUNCTION headwater_private.settle_queues(ns headwater_private.namespaces, only_subscriber text, max_scan bigint)
RETURNS TABLE (subscriber_id text, settled bigint, letters bigint, more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- How much this call may still do. NULL: there is no limit.
    rest bigint := max_scan;
BEGIN
    PERFORM headwater_private.require_proof();
    FOR settle_queues.subscriber_id IN
        SELECT s.subscriber_id FROM headwater_private.subscribers s
          JOIN headwater_private.queue_states n ON n.namespace_id = s.namespace_id AND n.subscriber_id = s.subscriber_id
         WHERE s.namespace_id = ns.namespace_id AND s.partition = 0 AND s.mode = 'shared' AND s.event_types IS NOT NULL
           AND (only_subscriber IS NULL OR s.subscriber_id = only_subscriber)
         ORDER BY (n.state).frontier, s.subscriber_id
    LOOP
        IF rest <= 0 THEN
            settle_queues.settled := 0;
            settle_queues.letters := 0;
            settle_queues.more := true;
        ELSE
            CONTINUE WHEN NOT headwater_private.try_lock_queue(ns.namespace_id, settle_queues.subscriber_id);
            SELECT q.settled, q.letters, q.more INTO settle_queues.settled, settle_queues.letters, settle_queues.more
              FROM headwater_private.settle_queue(ns, settle_queues.subscriber_id, rest) q;
            rest := rest - settle_queues.settled - settle_queues.letters;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
