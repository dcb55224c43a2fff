-- headwater.pause_subscriber(namespace, subscriber_id, reason)
-- Public: in docs/sql.md.
-- Pauses a subscriber. Its owner first finishes the event it is handling.
-- Raises: WH001, WH012. Locks: the row. Writes: the subscriber.
CREATE OR REPLACE FUNCTION headwater.pause_subscriber(namespace text, subscriber_id text, reason text DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(pause_subscriber.namespace, caller, 'consumer');
BEGIN
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, coalesce(pause_subscriber.subscriber_id, ''));
    UPDATE headwater_private.subscribers s SET paused = true, pause_reason = pause_subscriber.reason
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = pause_subscriber.subscriber_id;
END
$$;
