-- headwater_private.queue_letters(namespace_id, subscriber_id, moment)
-- Turns redriven dead letters of a shared subscriber into retries that are due at once. Returns
-- whether there may be more of them. The caller holds the queue's lock.
-- A letter is marked as queued while it is in a claim or a retry, whatever its state: so it is never
-- delivered twice at the same time. Whoever takes it out of there takes the mark away.
-- Raises: nothing. Locks: the subscriber, letters. Writes: retries, the letters, and in the
-- subscriber that they were looked at.
CREATE OR REPLACE FUNCTION headwater_private.queue_letters(namespace_id int, subscriber_id text, moment timestamptz)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    most  constant int := 1000;
    epoch bigint;
    made  int;
BEGIN
    -- Lock the subscriber before its letters, as everywhere.
    SELECT s.letters_epoch INTO epoch FROM headwater_private.subscribers s
     WHERE s.namespace_id = queue_letters.namespace_id AND s.subscriber_id = queue_letters.subscriber_id AND s.partition = 0
       FOR NO KEY UPDATE;
    WITH marked AS (
        UPDATE headwater_private.dead_letters d SET queued = true
         WHERE d.namespace_id = queue_letters.namespace_id AND d.subscriber_id = queue_letters.subscriber_id
           AND d.global_sequence IN (
               SELECT r.global_sequence FROM headwater_private.dead_letters r
                WHERE r.namespace_id = queue_letters.namespace_id AND r.subscriber_id = queue_letters.subscriber_id
                  AND r.state = 'redriving' AND NOT r.queued
                ORDER BY r.global_sequence LIMIT most)
        RETURNING d.global_sequence, d.event_type, d.attempts
    )
    INSERT INTO headwater_private.retries (namespace_id, subscriber_id, number, sequences, event_types, attempts, failures, due_at, of_letter)
    SELECT queue_letters.namespace_id, queue_letters.subscriber_id, nextval('headwater_private.claim_numbers'), ARRAY[m.global_sequence],
           ARRAY[m.event_type], jsonb_array_length(m.attempts), '[]', queue_letters.moment, true
      FROM (SELECT m.* FROM marked m ORDER BY m.global_sequence) m;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF made < most THEN
        UPDATE headwater_private.subscribers s SET letters_checked = epoch
         WHERE s.namespace_id = queue_letters.namespace_id AND s.subscriber_id = queue_letters.subscriber_id AND s.partition = 0;
    END IF;
    RETURN made = most;
END
$$;
