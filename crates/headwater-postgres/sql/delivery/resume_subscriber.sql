-- headwater.resume_subscriber(namespace, subscriber_id)
-- Public: in docs/sql.md.
-- Resumes a paused subscriber.
-- Raises: WH001, WH012. Locks: the row. Writes: the subscriber.
CREATE OR REPLACE FUNCTION headwater.resume_subscriber(namespace text, subscriber_id text, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(resume_subscriber.namespace, caller, 'consumer');
BEGIN
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, coalesce(resume_subscriber.subscriber_id, ''));
    UPDATE headwater_private.subscribers s SET paused = false, pause_reason = NULL
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = resume_subscriber.subscriber_id;
END
$$;
