-- headwater_private.widen_types(namespace_id, subscriber_id, event_types)
-- Adds event types to those that a queue takes (NULL: all types). So several programs can work on
-- one queue, each for its own types.
-- Raises: WH006. Locks: the queue and the subscriber, if there is something to change. Writes: the
-- subscriber.
CREATE OR REPLACE FUNCTION headwater_private.widen_types(namespace_id int, subscriber_id text, event_types text[])
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    takes   text[];
    missing text[];
BEGIN
    FOR attempt IN 1 .. 2 LOOP
        SELECT s.event_types INTO takes FROM headwater_private.subscribers s
         WHERE s.namespace_id = widen_types.namespace_id AND s.subscriber_id = widen_types.subscriber_id AND s.partition = 0;
        missing := headwater_private.types_outside(coalesce(widen_types.event_types, '{*}'), takes);
        IF takes IS NULL OR missing IS NULL THEN
            RETURN;
        ELSIF attempt = 1 THEN
            PERFORM headwater_private.lock_queue(widen_types.namespace_id, widen_types.subscriber_id);
        END IF;
    END LOOP;
    PERFORM headwater_private.change_types(widen_types.namespace_id, widen_types.subscriber_id,
                                           headwater_private.checked_types(missing || ARRAY(SELECT t FROM unnest(takes) t
                                               -- A type that a wider pattern includes need not be
                                               -- named.
                                               WHERE NOT headwater_private.matches_pattern(t, missing))));
END
$$;
