-- headwater.stored_events(namespace_id, event_ids)
-- What an append needs to know of events with these ids that are stored already. A producer need not be a reader: it shows its right to append there
-- (a row that row-level security lets only a producer write), and the owner looks.
-- Raises: 42501 if the caller may not append there. Locks: nothing. Writes: for a producer, a row in rights, which goes at once.
CREATE OR REPLACE FUNCTION headwater.stored_events(namespace_id int, event_ids uuid[])
RETURNS TABLE (event_id uuid, event_type text, stream_id text, global_sequence bigint, stream_version bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF row_security_active('headwater.events') THEN
        INSERT INTO headwater.rights (namespace_id) VALUES (stored_events.namespace_id);
        RETURN QUERY SELECT s.* FROM headwater.stored_for_producer(stored_events.namespace_id, stored_events.event_ids) s;
    ELSE
        RETURN QUERY SELECT e.event_id, e.event_type, e.stream_id, e.global_sequence, e.stream_version
                       FROM headwater.find_events(stored_events.namespace_id, stored_events.event_ids) e;
    END IF;
END
$$;
