-- headwater_private.ordered_mode(namespace_id, subscriber_id)
-- Returns the mode of a subscriber whose events are handled in order: exclusive or partitioned.
-- Raises: WH012 if there is no such subscriber, WH013 if it is shared. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.ordered_mode(namespace_id int, subscriber_id text)
RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    there text;
BEGIN
    SELECT s.mode INTO there FROM headwater_private.subscribers s
     WHERE s.namespace_id = ordered_mode.namespace_id AND s.subscriber_id = ordered_mode.subscriber_id AND s.partition = 0;
    IF NOT FOUND THEN
        PERFORM headwater_private.fail('WH012', format('subscriber %L does not exist', left(ordered_mode.subscriber_id, 80)),
            jsonb_build_object('subscriber_id', left(ordered_mode.subscriber_id, 255)),
            'make it: SELECT headwater.register_subscriber(''namespace'', ''id'', mode => ''partitioned'', partitions => 8)');
    ELSIF there = 'shared' THEN
        PERFORM headwater_private.fail('WH013', format('subscriber %L is shared: it has no partitions', left(ordered_mode.subscriber_id, 80)),
            jsonb_build_object('subscriber_id', left(ordered_mode.subscriber_id, 255), 'mode', there),
            'claim its events with headwater.claim, or register another subscriber');
    END IF;
    RETURN there;
END
$$;
