-- headwater.reset_subscriber(namespace, subscriber_id, to_position)
-- Public: in docs/sql.md.
-- Moves a subscriber to just after a position, forwards or back, in a new term without an owner:
-- what the last owner was working on can no longer be written. What its ledger has at or below the
-- position stays there, and what is not visible yet between the horizon and the position is added:
-- no event is lost because it is in flight. Counting begins anew, with that ledger. Dead letters
-- stay. A pending change of the number of partitions is dropped. A shared subscriber loses its
-- claims and retries; redriven letters are queued again, and events that have a dead letter are
-- delivered like any other.
-- There is nothing below what is trimmed: the subscriber then stands before the first event that is
-- kept, and a NOTICE says so.
-- Raises: WH001, WH002, WH006, WH012. Locks: against trimming, the queue, the row. Writes: the
-- subscriber and its ledger, what was settled ahead, claims, retries, letters.
CREATE OR REPLACE FUNCTION headwater.reset_subscriber(namespace text, subscriber_id text, to_position bigint, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns       headwater_private.namespaces := headwater_private.open_namespace(reset_subscriber.namespace, caller, 'consumer');
    new_term bigint;
    kept     record;
    ledger   bigint[];
BEGIN
    IF to_position IS NULL OR to_position < 0 THEN
        PERFORM headwater_private.fail('WH002', format('invalid to_position %s', coalesce(to_position::text, 'NULL')),
            jsonb_build_object('what', 'to_position', 'value', to_position), 'to_position is a global_sequence, or 0 for the beginning');
    END IF;
    to_position := headwater_private.kept_position(ns.namespace_id, to_position);
    PERFORM headwater_private.lock_queue(ns.namespace_id, reset_subscriber.subscriber_id);
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, coalesce(reset_subscriber.subscriber_id, ''));
    new_term := nextval('headwater_private.terms');
    FOR kept IN SELECT s.partition, CASE WHEN s.mode = 'shared' THEN (q.state).gaps
                                         ELSE headwater_private.ledger_of(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps) END AS pending_gaps,
                       s.mode = 'shared' AS shared
                  FROM headwater_private.subscribers s
                  JOIN headwater_private.queue_states q ON q.namespace_id = s.namespace_id AND q.subscriber_id = s.subscriber_id
                 WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = reset_subscriber.subscriber_id
    LOOP
        -- The lease and the report stay: the node that had the lease is still there, and takes it
        -- again.
        ledger := headwater_private.ledger_at(reset_subscriber.namespace, to_position, kept.pending_gaps);
        UPDATE headwater_private.subscribers s
           SET position = to_position, last_event_id = NULL, 
               pending_gaps = CASE WHEN kept.shared THEN ledger
                                   ELSE headwater_private.keep_ledger(ns.namespace_id, s.subscriber_id, s.partition, ledger) END, term = new_term, began_in_term = new_term,
               owner_node = NULL, owner_incarnation = NULL, lease = NULL, locked = false,
               resize_to = NULL, barrier = NULL, audit_base = to_position, audit_ledger = ledger,
               settled_events = 0, settled_sum = 0, late_events = 0, late_sum = 0, updated_at = clock_timestamp()
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = reset_subscriber.subscriber_id AND s.partition = kept.partition;
    END LOOP;
    DELETE FROM headwater_private.failing_events f
     WHERE f.namespace_id = ns.namespace_id AND f.subscriber_id = reset_subscriber.subscriber_id;
    DELETE FROM headwater_private.settled_ahead a
     WHERE a.namespace_id = ns.namespace_id AND a.subscriber_id = reset_subscriber.subscriber_id;
    -- These events are to change states again.
    DELETE FROM headwater_private.applied_events a
     WHERE a.namespace_id = ns.namespace_id AND a.owner = reset_subscriber.subscriber_id;
    PERFORM headwater_private.forget_claims(ns.namespace_id, reset_subscriber.subscriber_id);
END
$$;
