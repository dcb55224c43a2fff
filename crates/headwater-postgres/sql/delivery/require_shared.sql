-- headwater_private.require_shared(namespace_id, subscriber_id)
-- Checks that a subscriber is shared, so that its events can be claimed.
-- Raises: WH012 if there is no such subscriber, WH013 if it is not shared. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.require_shared(namespace_id int, subscriber_id text)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    there text;
BEGIN
    SELECT s.mode INTO there FROM headwater_private.subscribers s
     WHERE s.namespace_id = require_shared.namespace_id AND s.subscriber_id = require_shared.subscriber_id AND s.partition = 0;
    IF NOT FOUND THEN
        PERFORM headwater_private.fail('WH012', format('subscriber %L does not exist', left(require_shared.subscriber_id, 80)),
            jsonb_build_object('subscriber_id', left(require_shared.subscriber_id, 255)),
            'register it: SELECT headwater.register_subscriber(''namespace'', ''id'', mode => ''shared'')');
    ELSIF there <> 'shared' THEN
        PERFORM headwater_private.fail('WH013', format('subscriber %L is %s, not shared', require_shared.subscriber_id, there),
            jsonb_build_object('subscriber_id', require_shared.subscriber_id, 'mode', there),
            'only the events of a shared subscriber are claimed');
    END IF;
END
$$;
