-- headwater_private.import_queue(namespace_id, given)
-- Imports where a queue stood: a line `queue_states` of an export. The queue continues from there.
-- Its open claims come as retries.
-- Raises: WH002, WH016. Locks: as require_in_log. Writes: claims.
CREATE OR REPLACE FUNCTION headwater_private.import_queue(namespace_id int, given jsonb)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id constant text := given ->> 'subscriber_id';
    q  headwater_private.queue_state;
BEGIN
    BEGIN
        q := jsonb_populate_record(NULL::headwater_private.queue_state, jsonb_build_object(
                 'frontier', given -> 'frontier', 'gaps', given -> 'gaps', 'open', given -> 'open', 'skipped', '[]'::jsonb,
                 'expired_from', '-infinity', 'due_from', '-infinity', 'last_visible_at', '-infinity', 'look_at', '-infinity',
                 'moment', clock_timestamp()));
    EXCEPTION WHEN data_exception THEN
        q := NULL;
    END;
    IF (id IS NOT NULL AND q.frontier >= 0 AND q.gaps IS NOT NULL AND q.open IS NOT NULL
        AND NOT EXISTS (SELECT FROM unnest(q.open) o
                         WHERE (o.first_sequence BETWEEN 1 AND o.last_sequence AND o.last_sequence <= q.frontier
                                AND octet_length(o.event_type) BETWEEN 1 AND 255) IS NOT TRUE)) IS NOT TRUE THEN
        PERFORM headwater_private.fail('WH002', format('the export contradicts itself: the queue of subscriber %L', left(id, 80)),
            jsonb_build_object('what', 'queue_states', 'value', left(id, 255)), 'the file is damaged: export it again');
    END IF;
    PERFORM headwater_private.check_sequences(import_queue.namespace_id, q.gaps, true);
    q.open := headwater_private.merge_open(q.open);
    PERFORM headwater_private.save_queue(import_queue.namespace_id, id, NULL, false, '{}', q);
END
$$;
