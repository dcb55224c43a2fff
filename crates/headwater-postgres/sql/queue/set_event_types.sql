-- headwater.set_event_types(namespace, subscriber_id, event_types)
-- Public: in docs/sql.md.
-- Sets which event types a shared subscriber takes. In a type, * stands for any characters (NULL or
-- *: all types). Events of other types are settled without a worker. The change counts for every
-- event that no claim has passed yet, and for every event that becomes visible later. If claims
-- have passed an event as not taken, it stays settled: headwater.reset_subscriber goes back to it.
-- Events that were left behind for workers, and that the queue no longer takes, are settled. If a
-- worker had such an event before and it is to be delivered again, it becomes a dead letter. Claims
-- that are held continue. Returns the types that the subscriber took before (NULL: all types).
-- Raises: WH001, WH002, WH006, WH012, WH013 if the subscriber is not shared. Locks: the queue, the
-- subscriber. Writes: the subscriber, claims.
CREATE OR REPLACE FUNCTION headwater.set_event_types(namespace text, subscriber_id text, event_types text[], caller headwater.caller DEFAULT current_user)
RETURNS text[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(set_event_types.namespace, caller, 'consumer');
    wanted text[] := headwater_private.checked_types(set_event_types.event_types);
    before text[];
BEGIN
    PERFORM headwater_private.require_shared(ns.namespace_id, set_event_types.subscriber_id);
    PERFORM headwater_private.lock_queue(ns.namespace_id, set_event_types.subscriber_id);
    -- The subscriber may have been removed in the meantime.
    PERFORM headwater_private.require_shared(ns.namespace_id, set_event_types.subscriber_id);
    SELECT s.event_types INTO before FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = set_event_types.subscriber_id AND s.partition = 0;
    IF before IS DISTINCT FROM wanted THEN
        PERFORM headwater_private.change_types(ns.namespace_id, set_event_types.subscriber_id, wanted);
    END IF;
    RETURN before;
END
$$;
