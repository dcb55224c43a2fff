-- headwater.stored_for_producer(namespace_id, event_ids)
-- headwater.stored_events as the owner of the tables: only for a transaction that has shown its right to append there, once for each time.
-- Raises: WH015. Locks: nothing. Writes: the row in rights is deleted.
CREATE OR REPLACE FUNCTION headwater.stored_for_producer(namespace_id int, event_ids uuid[])
RETURNS TABLE (event_id uuid, event_type text, stream_id text, global_sequence bigint, stream_version bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM headwater.rights r
     WHERE r.namespace_id = stored_for_producer.namespace_id AND r.transaction_id = pg_current_xact_id_if_assigned();
    IF NOT FOUND THEN
        PERFORM headwater.fail('WH015', 'this role may not append to this namespace', jsonb_build_object('kind', 'producer'),
            'call headwater.emit or headwater.append');
    END IF;
    RETURN QUERY SELECT e.event_id, e.event_type, e.stream_id, e.global_sequence, e.stream_version
                   FROM headwater.find_events(stored_for_producer.namespace_id, stored_for_producer.event_ids) e;
END
$$;
