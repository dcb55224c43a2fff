-- headwater.remove_subscriber(namespace, subscriber_id, force)
-- Public: in docs/sql.md.
-- Removes a subscriber, with its dead letters and its states.
-- Raises: WH001, WH006, WH012, WH013 (its owner's lease still runs, and force is not set). Locks:
-- the queue, the row.
-- Writes: subscribers, members, claims, retries, dead letters, states and notes of applied events
-- are deleted.
CREATE OR REPLACE FUNCTION headwater.remove_subscriber(namespace text, subscriber_id text, force boolean DEFAULT false, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns    headwater_private.namespaces := headwater_private.open_namespace(remove_subscriber.namespace, caller, 'consumer');
    owner text;
BEGIN
    PERFORM headwater_private.lock_queue(ns.namespace_id, remove_subscriber.subscriber_id);
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, coalesce(remove_subscriber.subscriber_id, ''));
    SELECT s.owner_node INTO owner FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = remove_subscriber.subscriber_id
       AND s.owner_incarnation IS NOT NULL AND s.lease_until > clock_timestamp() LIMIT 1;
    IF FOUND AND NOT coalesce(remove_subscriber.force, false) THEN
        PERFORM headwater_private.fail('WH013', format('subscriber %L is in use by node %L', remove_subscriber.subscriber_id, owner),
            jsonb_build_object('subscriber_id', remove_subscriber.subscriber_id, 'node', owner),
            'stop it there first, or force its removal');
    END IF;
    PERFORM headwater_private.forget_claims(ns.namespace_id, remove_subscriber.subscriber_id);
    DELETE FROM headwater_private.queues l
     WHERE l.namespace_id = ns.namespace_id AND l.subscriber_id = remove_subscriber.subscriber_id;
    DELETE FROM headwater_private.ledger_chunks c
     WHERE c.namespace_id = ns.namespace_id AND c.subscriber_id = remove_subscriber.subscriber_id;
    DELETE FROM headwater_private.settled_ahead a
     WHERE a.namespace_id = ns.namespace_id AND a.subscriber_id = remove_subscriber.subscriber_id;
    DELETE FROM headwater_private.failing_events f
     WHERE f.namespace_id = ns.namespace_id AND f.subscriber_id = remove_subscriber.subscriber_id;
    DELETE FROM headwater_private.dead_letters d
     WHERE d.namespace_id = ns.namespace_id AND d.subscriber_id = remove_subscriber.subscriber_id;
    DELETE FROM headwater_private.applied_events a
     WHERE a.namespace_id = ns.namespace_id AND a.owner = remove_subscriber.subscriber_id;
    DELETE FROM headwater_private.states t WHERE t.namespace_id = ns.namespace_id AND t.owner = remove_subscriber.subscriber_id;
    DELETE FROM headwater_private.queue_workers w
     WHERE w.namespace_id = ns.namespace_id AND w.subscriber_id = remove_subscriber.subscriber_id;
    DELETE FROM headwater_private.members m WHERE m.namespace_id = ns.namespace_id AND m.subscriber_id = remove_subscriber.subscriber_id;
    DELETE FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = remove_subscriber.subscriber_id;
END
$$;
