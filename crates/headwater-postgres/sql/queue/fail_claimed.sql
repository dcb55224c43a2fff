-- headwater_private.fail_claimed(claim, failed, due_at, error)
-- Records that events of a claim failed. They are delivered again from due_at on. If this was the
-- last attempt, they become dead letters. A redriven letter is dead again, unless something else
-- happened to it in the meantime. Events that the log no longer has are left out. The caller holds
-- the queue's lock, and takes the events out of the claim.
-- Raises: nothing. Locks: letters. Writes: retries, dead letters.
CREATE OR REPLACE FUNCTION headwater_private.fail_claimed(claim headwater_private.claims, failed bigint[], due_at timestamptz, error text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    failure jsonb := jsonb_build_object('at', clock_timestamp(), 'node', claim.worker, 'errors', jsonb_build_array(fail_claimed.error));
BEGIN
    IF claim.of_letter THEN
        UPDATE headwater_private.dead_letters d
           SET state = 'dead', queued = false, error = fail_claimed.error, node = claim.worker, attempts = d.attempts || failure,
               updated_at = clock_timestamp()
         WHERE d.namespace_id = claim.namespace_id AND d.subscriber_id = claim.subscriber_id AND d.global_sequence = ANY (failed)
           AND d.state = 'redriving';
        UPDATE headwater_private.dead_letters d SET queued = false
         WHERE d.namespace_id = claim.namespace_id AND d.subscriber_id = claim.subscriber_id AND d.global_sequence = ANY (failed)
           AND d.queued;
    ELSIF claim.attempts < claim.max_attempts THEN
        INSERT INTO headwater_private.retries (namespace_id, subscriber_id, number, sequences, event_types, attempts, failures, due_at, of_letter, suspect,
                                       uncounted)
        SELECT claim.namespace_id, claim.subscriber_id, nextval('headwater_private.claim_numbers'), f.sequences, f.event_types, claim.attempts,
               claim.failures || failure, fail_claimed.due_at, false, claim.suspect, claim.uncounted
          FROM (SELECT array_agg(e.global_sequence ORDER BY e.global_sequence) AS sequences,
                       array_agg(DISTINCT e.event_type) AS event_types
                  FROM headwater_private.claimed_events(claim.namespace_id, failed[1], failed[cardinality(failed)], NULL, failed) e) f
         WHERE f.sequences IS NOT NULL;
    ELSE
        -- If this event is also being delivered as a redriven letter, the letter stays queued.
        INSERT INTO headwater_private.dead_letters AS d (namespace_id, subscriber_id, global_sequence, event_id, event_type, order_key, state,
                                                 parks_key, error, node, attempts, event, term, created_at, updated_at)
        SELECT s.namespace_id, s.subscriber_id, e.global_sequence, e.event_id, e.event_type,
               coalesce(e.key, e.stream_id, e.event_id::text), 'dead', false, fail_claimed.error, claim.worker, claim.failures || failure,
               headwater_private.event_json(e), s.term, clock_timestamp(), clock_timestamp()
          FROM headwater_private.subscribers s
         CROSS JOIN headwater_private.claimed_events(claim.namespace_id, failed[1], failed[cardinality(failed)], NULL, failed) e
         WHERE s.namespace_id = claim.namespace_id AND s.subscriber_id = claim.subscriber_id AND s.partition = 0
        ON CONFLICT (namespace_id, subscriber_id, global_sequence, event_id) DO UPDATE
           SET state = 'dead', reason = NULL, error = excluded.error, node = excluded.node,
               attempts = d.attempts || excluded.attempts, term = excluded.term, updated_at = excluded.updated_at;
    END IF;
END
$$;
