-- headwater_private.look_by(namespace_id, subscriber_id, newest, ended, q, due_at, moment)
-- Notes in a queue's state `q` that a retry is due then, and, now and then, what the clock shows. `newest` and `ended` are as in save_queue. The caller
-- holds the queue's lock.
-- Raises, locks: nothing. Writes: claims.
CREATE OR REPLACE FUNCTION headwater_private.look_by(
    namespace_id int, subscriber_id text, newest bigint, ended boolean, q headwater_private.queue_state, due_at timestamptz, moment timestamptz
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF q.look_at <= look_by.due_at AND look_by.moment < q.moment + interval '10 s' THEN
        RETURN;
    END IF;
    q.look_at := least(q.look_at, look_by.due_at);
    q.moment := greatest(q.moment, look_by.moment);
    -- In a row of its own: the newest may be locked by who acks it.
    PERFORM headwater_private.save_queue(look_by.namespace_id, look_by.subscriber_id, newest, ended, '{}', q);
END
$$;
