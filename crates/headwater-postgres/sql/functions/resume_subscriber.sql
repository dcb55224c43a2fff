-- headwater.resume_subscriber(namespace, subscriber_id)
-- Public: in docs/sql.md.
-- Lets a paused subscriber go on.
-- Raises: WH001, WH012. Locks: the row. Writes: the subscriber.
CREATE OR REPLACE FUNCTION headwater.resume_subscriber(namespace text, subscriber_id text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ns headwater.namespaces := headwater.namespace_row(resume_subscriber.namespace);
BEGIN
    PERFORM headwater.lock_subscribers(ns.namespace_id, coalesce(resume_subscriber.subscriber_id, ''));
    UPDATE headwater.subscribers s SET paused = false, pause_reason = NULL
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = resume_subscriber.subscriber_id;
END
$$;
