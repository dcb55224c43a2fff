-- headwater_private.settle_queue(ns, subscriber_id, max_scan, settled, letters, more)
-- Does one step of headwater.settle_untaken for a queue. It settles events that the queue does not
-- take: up to the first event that the queue takes, to the end of the log, or to max_scan events.
-- Events that a worker handed back or lost, and that the queue no longer takes, become dead
-- letters. Events that the queue takes stay as they are: the frontier stops before them, and events
-- that appear in a gap are left to claims. The caller holds the queue's lock.
-- Returns how many sequences the frontier has passed, how many events became dead letters, and
-- whether another step may do more.
-- Raises: WH006. Locks: letters. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater_private.settle_queue(
    ns headwater_private.namespaces, subscriber_id text, max_scan bigint, OUT settled bigint, OUT letters bigint, OUT more boolean
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    queue   record;
    newest  record;
    q       headwater_private.queue_state;
    moment  timestamptz;
    likes   text[];
    safe    bigint;
    step    record;
BEGIN
    settled := 0;
    letters := 0;
    more := false;
    SELECT CASE n.storage WHEN 'own' THEN 9223372036854775807 ELSE n.tail_after END AS tail_after, n.tail_from, s.event_types AS takes INTO queue
      FROM headwater_private.namespaces n
      JOIN headwater_private.subscribers s ON s.namespace_id = n.namespace_id AND s.subscriber_id = settle_queue.subscriber_id AND s.partition = 0
     WHERE n.namespace_id = ns.namespace_id AND s.mode = 'shared' AND s.event_types IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT n.number, n.done, n.state INTO newest FROM headwater_private.queue_states n
     WHERE n.namespace_id = ns.namespace_id AND n.subscriber_id = settle_queue.subscriber_id;
    q := newest.state;
    moment := greatest(clock_timestamp(), q.moment, q.expired_from, q.due_from);
    SELECT r.letters, r.more INTO letters, more
      FROM headwater_private.settle_retries(ns.namespace_id, settle_queue.subscriber_id, queue.takes, '-infinity', moment, NULL) r;
    IF q.gaps <> '{}' THEN
        -- Two statements, in this order: the second shows everything that committed before the
        -- horizon was read.
        SELECT h.horizon INTO safe FROM headwater_private.horizon_of(ns.namespace_id) h;
        q := headwater_private.close_gaps(ns.namespace_id, safe, queue.takes, q);
    END IF;
    IF position('*' IN array_to_string(queue.takes, '')) > 0 THEN
        likes := headwater_private.as_likes(queue.takes);
    END IF;
    -- Pass them as a claim of one event does. But the event that it finds stays where it is.
    step := headwater_private.take_new(ns.namespace, ns.namespace_id, queue.tail_after, queue.tail_from, queue.takes, likes, '{}', 1, true,
                                       settle_queue.max_scan, q);
    q := step.q;
    more := more OR step.more;
    IF step.first_sequence IS NOT NULL THEN
        q.frontier := step.first_sequence - 1;
    END IF;
    settled := greatest(q.frontier - (newest.state).frontier, 0);
    IF (q.frontier, q.gaps, q.open) IS DISTINCT FROM ((newest.state).frontier, (newest.state).gaps, (newest.state).open) THEN
        -- The next claim looks again for what has expired or is due.
        q.look_at := '-infinity';
        q.moment := moment;
        PERFORM headwater_private.save_queue(ns.namespace_id, settle_queue.subscriber_id, newest.number, coalesce(newest.done, false), '{}', q);
    END IF;
END
$$;
