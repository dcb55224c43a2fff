-- headwater.causation_chain(namespace_id, event_id, max_events)
-- What led to an event and what it led to: its causes up to the first, itself, and all of its effects, in order of the log.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.causation_chain(namespace_id int, event_id uuid, max_events int, caller headwater.caller DEFAULT current_user)
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.authorize(causation_chain.namespace_id, caller, 'consumer');
    RETURN QUERY
    WITH RECURSIVE causes AS (
        SELECT e.event_id, e.causation_id FROM headwater_private.events e
         WHERE e.namespace_id = causation_chain.namespace_id AND e.event_id = causation_chain.event_id
        UNION
        SELECT e.event_id, e.causation_id FROM causes c
          JOIN headwater_private.events e ON e.namespace_id = causation_chain.namespace_id AND e.event_id = c.causation_id
    ), effects AS (
        SELECT causation_chain.event_id
        UNION
        SELECT e.event_id FROM effects f
          JOIN headwater_private.events e ON e.namespace_id = causation_chain.namespace_id AND e.causation_id = f.event_id
    )
    SELECT e.* FROM headwater_private.events e
     WHERE e.namespace_id = causation_chain.namespace_id
       AND e.event_id IN (SELECT c.event_id FROM causes c UNION SELECT f.event_id FROM effects f)
     ORDER BY e.global_sequence
     LIMIT causation_chain.max_events;
END
$$;
