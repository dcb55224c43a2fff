-- headwater_private.check_taken(subscriber_id, event_types, takes)
-- Checks that a queue takes all of the given event types.
-- Raises: WH002, which names the types that the queue does not take. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_taken(subscriber_id text, event_types text[], takes text[])
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    outside text[] := headwater_private.types_outside(check_taken.event_types, check_taken.takes);
BEGIN
    IF outside IS NOT NULL THEN
        PERFORM headwater_private.fail('WH002',
            format('subscriber %L does not take %s: it takes %s', left(check_taken.subscriber_id, 80), left(array_to_string(outside, ', '), 500),
                   left(array_to_string(check_taken.takes, ', '), 500)),
            jsonb_build_object('what', 'event_types', 'subscriber_id', left(check_taken.subscriber_id, 255), 'value', outside, 'takes', check_taken.takes),
            'ask for none, which is all that it takes, or let it take more: SELECT headwater.set_event_types(''namespace'', ''id'', ''{…}'')');
    END IF;
END
$$;
