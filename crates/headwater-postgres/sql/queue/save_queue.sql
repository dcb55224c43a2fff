-- headwater_private.save_queue(namespace_id, subscriber_id, newest, ended, made, q)
-- Writes the claims that were made, and with them the queue's state, which the newest row carries.
-- If no claim was made, it writes a claim that is done, to carry the state. `newest` is the number
-- of the claim that has carried the state so far: if it has `ended`, its row is deleted. The caller
-- holds the queue's lock.
-- The view headwater_private.queue_states returns the state of a queue, the number of the newest
-- claim, and whether nothing of that claim is left to do. If there is no claim yet, the state says
-- where the subscriber began. It is a view, so that it becomes part of the statement that asks.
-- Besides these two, ack, take_claims, is_idle, end_claim and the view `places` (in
-- queue_status.sql) know that the newest claim carries the state: there, a call would cost more
-- than the work itself.
-- Raises, locks: nothing. Writes: claims.
CREATE OR REPLACE FUNCTION headwater_private.save_queue(
    namespace_id int, subscriber_id text, newest bigint, ended boolean, made headwater_private.claims[], q headwater_private.queue_state
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one headwater_private.claims;
BEGIN
    IF cardinality(made) = 1 THEN
        one := made[1];
        INSERT INTO headwater_private.claims (namespace_id, attempts, max_attempts, of_letter, done, counts, suspect, uncounted, number, first_sequence,
                                      last_sequence, visible_at, claim_id, subscriber_id, worker, event_types, sequences, failures, state,
                                      one_table)
        VALUES (save_queue.namespace_id, one.attempts, one.max_attempts, one.of_letter, false, one.first_sequence = one.last_sequence, one.suspect,
                one.uncounted, one.number, one.first_sequence, one.last_sequence, one.visible_at, one.claim_id, save_queue.subscriber_id, one.worker,
                one.event_types, one.sequences, one.failures, q, one.one_table);
    ELSIF cardinality(made) > 1 THEN
        -- When several claims expire, nobody knows which one their worker had begun. So the expiry
        -- counts as an attempt for none of them.
        INSERT INTO headwater_private.claims (namespace_id, attempts, max_attempts, of_letter, done, counts, suspect, uncounted, number, first_sequence,
                                      last_sequence, visible_at, claim_id, subscriber_id, worker, event_types, sequences, failures, state,
                                      one_table)
        SELECT save_queue.namespace_id, m.attempts, m.max_attempts, m.of_letter, false, false, m.suspect, m.uncounted, m.number, m.first_sequence,
               m.last_sequence, m.visible_at, m.claim_id, save_queue.subscriber_id, m.worker, m.event_types, m.sequences, m.failures, q, m.one_table
          FROM unnest(made) m;
    ELSE
        INSERT INTO headwater_private.claims (namespace_id, attempts, max_attempts, of_letter, done, counts, number, first_sequence, last_sequence,
                                      visible_at, claim_id, subscriber_id, worker, sequences, failures, state)
        VALUES (save_queue.namespace_id, 1, 1, false, true, false, nextval('headwater_private.claim_numbers'), 0, 0, greatest(q.moment, q.last_visible_at),
                gen_random_uuid(), save_queue.subscriber_id, '', '{}', '[]', q);
    END IF;
    IF save_queue.ended THEN
        DELETE FROM headwater_private.claims c
         WHERE c.namespace_id = save_queue.namespace_id AND c.subscriber_id = save_queue.subscriber_id AND c.number = save_queue.newest;
    END IF;
END
$$;
CREATE OR REPLACE VIEW headwater_private.queue_states AS
SELECT s.namespace_id, s.subscriber_id, c.number, c.done,
       coalesce(c.state, ROW(s.position, s.pending_gaps, '{}', '-infinity', '-infinity', '-infinity', '{}', '-infinity', NULL,
                             '-infinity', NULL)::headwater_private.queue_state) AS state
  FROM headwater_private.subscribers s
  LEFT JOIN LATERAL (SELECT c.number, c.done, c.state FROM headwater_private.claims c
                      WHERE c.namespace_id = s.namespace_id AND c.subscriber_id = s.subscriber_id
                      ORDER BY c.number DESC LIMIT 1) c ON true
 WHERE s.partition = 0;
