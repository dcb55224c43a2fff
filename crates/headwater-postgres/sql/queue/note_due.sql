-- headwater_private.note_due(namespace_id, subscriber_id, newest, ended, q, due_at, moment)
-- Records in a queue's state `q` that a retry is due at due_at, and now and then what the clock
-- shows. `newest` and `ended` are as in save_queue. The caller holds the queue's lock.
-- Raises, locks: nothing. Writes: claims.
CREATE OR REPLACE FUNCTION headwater_private.note_due(
    namespace_id int, subscriber_id text, newest bigint, ended boolean, q headwater_private.queue_state, due_at timestamptz, moment timestamptz
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF q.look_at <= note_due.due_at AND note_due.moment < q.moment + interval '10 s' THEN
        RETURN;
    END IF;
    q.look_at := least(q.look_at, note_due.due_at);
    q.moment := greatest(q.moment, note_due.moment);
    -- Write a new row: an ack may have locked the newest one.
    PERFORM headwater_private.save_queue(note_due.namespace_id, note_due.subscriber_id, newest, ended, '{}', q);
END
$$;
