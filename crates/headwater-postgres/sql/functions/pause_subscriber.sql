-- headwater.pause_subscriber(namespace, subscriber_id, reason)
-- Public: in docs/sql.md.
-- Pauses a subscriber. Its owner ends the event at hand first.
-- Raises: WH001, WH012. Locks: the row. Writes: the subscriber.
CREATE OR REPLACE FUNCTION headwater.pause_subscriber(namespace text, subscriber_id text, reason text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ns headwater.namespaces := headwater.namespace_row(pause_subscriber.namespace);
BEGIN
    PERFORM headwater.lock_subscribers(ns.namespace_id, coalesce(pause_subscriber.subscriber_id, ''));
    UPDATE headwater.subscribers s SET paused = true, pause_reason = pause_subscriber.reason
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = pause_subscriber.subscriber_id;
END
$$;
