-- headwater_private.requeue_letters(claim, sequences, due_at)
-- Puts redriven dead letters of a claim back: they are to be delivered from due_at on, unless they
-- were discarded in the meantime. The caller holds the queue's lock, and takes them from the claim.
-- Raises, locks: nothing. Writes: retries.
CREATE OR REPLACE FUNCTION headwater_private.requeue_letters(claim headwater_private.claims, sequences bigint[], due_at timestamptz)
RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO headwater_private.retries (namespace_id, subscriber_id, number, sequences, event_types, attempts, failures, due_at, of_letter, suspect,
                                   uncounted)
    SELECT claim.namespace_id, claim.subscriber_id, nextval('headwater_private.claim_numbers'), ARRAY[d.global_sequence], ARRAY[d.event_type],
           claim.attempts, claim.failures, requeue_letters.due_at, true, claim.suspect, claim.uncounted
      FROM headwater_private.dead_letters d
     WHERE d.namespace_id = claim.namespace_id AND d.subscriber_id = claim.subscriber_id
       AND d.global_sequence = ANY (requeue_letters.sequences) AND d.state = 'redriving'
$$;
