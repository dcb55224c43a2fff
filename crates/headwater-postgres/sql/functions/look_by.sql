-- headwater_private.look_by(newest, due_at, moment)
-- Notes in a queue's state that a retry is due then, and, now and then, what the clock shows: a row of its own, since the newest may be locked by who acks
-- it. The caller holds the queue's lock.
-- Raises, locks: nothing. Writes: claims.
CREATE OR REPLACE FUNCTION headwater_private.look_by(newest headwater_private.claims, due_at timestamptz, moment timestamptz)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state headwater_private.queue_state := newest.state;
BEGIN
    IF state.look_at <= look_by.due_at AND look_by.moment < state.moment + interval '10 s' THEN
        RETURN;
    END IF;
    state.look_at := least(state.look_at, look_by.due_at);
    state.moment := greatest(state.moment, look_by.moment);
    INSERT INTO headwater_private.claims (namespace_id, attempts, max_attempts, of_letter, done, number, first_sequence, last_sequence, visible_at,
                                  claim_id, subscriber_id, worker, sequences, failures, state)
    VALUES (newest.namespace_id, 1, 1, false, true, nextval('headwater_private.claim_numbers'), 0, 0, newest.visible_at,
            gen_random_uuid(), newest.subscriber_id, '', '{}', '[]', state);
    IF newest.done THEN
        DELETE FROM headwater_private.claims c
         WHERE c.namespace_id = newest.namespace_id AND c.subscriber_id = newest.subscriber_id AND c.number = newest.number;
    END IF;
END
$$;
