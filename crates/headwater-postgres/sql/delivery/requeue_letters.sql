-- headwater_private.requeue_letters(claim, sequences, due_at)
-- Puts redriven dead letters of a claim back: they are to be delivered from due_at on. Letters that
-- were discarded, or that failed in another claim, in the meantime are dropped. The caller holds
-- the queue's lock, and takes them from the claim.
-- Raises: nothing. Locks: the letters. Writes: retries, letters.
CREATE OR REPLACE FUNCTION headwater_private.requeue_letters(claim headwater_private.claims, sequences bigint[], due_at timestamptz)
RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH back AS (
        UPDATE headwater_private.dead_letters d SET queued = d.state = 'redriving'
         WHERE d.namespace_id = claim.namespace_id AND d.subscriber_id = claim.subscriber_id
           AND d.global_sequence = ANY (requeue_letters.sequences)
        RETURNING d.global_sequence, d.event_type, d.queued
    )
    INSERT INTO headwater_private.retries (namespace_id, subscriber_id, number, sequences, event_types, attempts, failures, due_at, of_letter, suspect,
                                   uncounted)
    SELECT claim.namespace_id, claim.subscriber_id, nextval('headwater_private.claim_numbers'), ARRAY[b.global_sequence], ARRAY[b.event_type],
           claim.attempts, claim.failures, requeue_letters.due_at, true, claim.suspect, claim.uncounted
      FROM back b WHERE b.queued
$$;
