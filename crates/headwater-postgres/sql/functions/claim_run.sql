-- headwater.claim_run(namespace, subscriber_id, max_events, visibility, worker, max_attempts, acks, per_claim)
-- What headwater.claim_with_care does where there is nothing to care for but the next events of the log, in few steps, since these cost more
-- than its rows. Answers the claims, of per_claim events each, or one if that is NULL: all events in their range, which ends before a hole in
-- the log. `idle`: there is nothing to claim, to ack or to note. Neither, with nothing written, when care is needed: input that is wrong, a subscriber that is paused, not shared or new, letters to
-- queue, time to look for what has expired or is due, a newest claim that is done, gaps, open ranges, a hole in the log that comes next, sealed months, acks
-- and no events. Callers set what keeps its plans to the indexes.
-- Raises: WH014 if one of the acks is lost. Locks: the queue. Writes: claims, acked letters.
CREATE OR REPLACE FUNCTION headwater.claim_run(
    namespace text, subscriber_id text, max_events int, visibility interval, worker text, max_attempts int, acks uuid[], per_claim int,
    OUT namespace_id int, OUT claim_ids uuid[], OUT first_sequence bigint, OUT last_sequence bigint, OUT visible_at timestamptz,
    OUT idle boolean
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    size       bigint := coalesce(claim_run.per_claim, claim_run.max_events);
    run        record;
    ended      uuid[];
    other      headwater.claims;
    tail_after bigint;
    tail_from  timestamptz;
BEGIN
    -- The next statement has a snapshot of its own, in which all is visible that others have claimed.
    SELECT n.namespace_id, n.tail_after, n.tail_from, headwater.lock_queue(n.namespace_id, claim_run.subscriber_id)
      INTO claim_run.namespace_id, tail_after, tail_from
      FROM headwater.namespaces n
      JOIN headwater.subscribers s ON s.namespace_id = n.namespace_id AND s.subscriber_id = claim_run.subscriber_id AND s.partition = 0
     WHERE n.namespace = claim_run.namespace AND s.mode = 'shared' AND NOT s.paused AND s.letters_epoch <= s.letters_checked
       AND claim_run.max_events BETWEEN 1 AND 100000 AND claim_run.visibility > interval '0' AND claim_run.visibility <= interval '30 days'
       AND claim_run.max_attempts >= 1 AND coalesce(claim_run.per_claim >= 1, true) AND array_position(claim_run.acks, NULL) IS NULL
       AND coalesce(octet_length(claim_run.worker) BETWEEN 1 AND 255 AND claim_run.worker !~ '[\x01-\x1f\x7f]', true)
       AND current_setting('transaction_isolation') = 'read committed' AND NOT pg_is_in_recovery();
    INSERT INTO headwater.claims (namespace_id, attempts, max_attempts, of_letter, done, number, first_sequence, last_sequence, visible_at,
                                  claim_id, subscriber_id, worker, failures, state)
    SELECT claim_run.namespace_id, 1, claim_run.max_attempts, false, false, nextval('headwater.claim_numbers'), n.frontier + 1,
           least(n.frontier + size, e.last), n.moment + claim_run.visibility, gen_random_uuid(), claim_run.subscriber_id,
           coalesce(claim_run.worker, ''), '[]',
           ROW(e.last, '{}', '{}', n.expired_from, n.due_from, greatest(n.last_visible_at, n.moment + claim_run.visibility), '{}',
               least(n.look_at, n.moment + claim_run.visibility))::headwater.queue_state
      FROM headwater.newest_state(claim_run.namespace_id, claim_run.subscriber_id) n
     CROSS JOIN LATERAL (
         SELECT max(e.global_sequence) AS last, count(*) AS events FROM (
             SELECT e.global_sequence FROM headwater.events e
              WHERE e.namespace_id = claim_run.namespace_id AND e.global_sequence > n.frontier
                AND e.recorded_at >= tail_from
              ORDER BY e.global_sequence LIMIT claim_run.max_events) e) e
     WHERE NOT n.done AND n.frontier >= tail_after AND n.moment < n.look_at AND e.last = n.frontier + e.events
    RETURNING ARRAY[claim_id], first_sequence, (state).frontier, visible_at
      INTO claim_run.claim_ids, claim_run.first_sequence, claim_run.last_sequence, claim_run.visible_at;
    IF claim_run.last_sequence - claim_run.first_sequence >= size THEN
        WITH others AS (
            INSERT INTO headwater.claims (namespace_id, attempts, max_attempts, of_letter, done, number, first_sequence, last_sequence,
                                          visible_at, claim_id, subscriber_id, worker, failures, state)
            SELECT c.namespace_id, c.attempts, c.max_attempts, c.of_letter, c.done, nextval('headwater.claim_numbers'), one.first,
                   least(one.first + size - 1, claim_run.last_sequence), c.visible_at, gen_random_uuid(), c.subscriber_id, c.worker,
                   c.failures, c.state
              FROM headwater.claims c
             CROSS JOIN generate_series(claim_run.first_sequence + size, claim_run.last_sequence, size) AS one(first)
             WHERE c.claim_id = claim_run.claim_ids[1]
            RETURNING claim_id, first_sequence
        )
        SELECT claim_run.claim_ids || array_agg(o.claim_id ORDER BY o.first_sequence) INTO claim_run.claim_ids FROM others o;
    END IF;
    claim_run.idle := false;
    IF claim_run.claim_ids IS NULL THEN
        SELECT count(p.place) AS events, count(p.place) FILTER (WHERE p.global_sequence = n.frontier + p.place) AS before_a_hole INTO run
          FROM headwater.newest_state(claim_run.namespace_id, claim_run.subscriber_id) n
          LEFT JOIN LATERAL (
              SELECT e.global_sequence, row_number() OVER (ORDER BY e.global_sequence) AS place FROM headwater.events e
               WHERE e.namespace_id = claim_run.namespace_id AND e.global_sequence > n.frontier
                 AND e.recorded_at >= tail_from
               ORDER BY e.global_sequence LIMIT claim_run.max_events) p ON true
         WHERE n.frontier >= tail_after AND n.moment < n.look_at
        HAVING count(*) > 0;
        IF run.events = 0 THEN
            claim_run.idle := coalesce(cardinality(claim_run.acks), 0) = 0;
        ELSIF run.before_a_hole BETWEEN 1 AND claim_run.max_events - 1 THEN
            SELECT r.* INTO claim_run.namespace_id, claim_run.claim_ids, claim_run.first_sequence, claim_run.last_sequence, claim_run.visible_at,
                   claim_run.idle
              FROM headwater.claim_run(claim_run.namespace, claim_run.subscriber_id, run.before_a_hole::int, claim_run.visibility,
                                       claim_run.worker, claim_run.max_attempts, claim_run.acks, claim_run.per_claim) r;
        END IF;
    ELSIF cardinality(claim_run.acks) = 1 THEN
        -- Most acks are this.
        DELETE FROM headwater.claims c
         WHERE c.claim_id = claim_run.acks[1] AND NOT c.done AND NOT c.of_letter
           AND c.namespace_id IS NOT DISTINCT FROM claim_run.namespace_id AND c.subscriber_id IS NOT DISTINCT FROM claim_run.subscriber_id;
        IF NOT FOUND THEN
            other.number := 0;
            PERFORM headwater.ack_claims(claim_run.namespace_id, claim_run.subscriber_id, claim_run.acks, other, false);
        END IF;
    ELSIF claim_run.acks IS NOT NULL THEN
        WITH gone AS (
            DELETE FROM headwater.claims c
             WHERE c.claim_id = ANY (claim_run.acks) AND NOT c.done AND NOT c.of_letter
               -- Not for an index, as in held_claim.
               AND c.namespace_id IS NOT DISTINCT FROM claim_run.namespace_id AND c.subscriber_id IS NOT DISTINCT FROM claim_run.subscriber_id
            RETURNING c.claim_id
        )
        SELECT coalesce(array_agg(g.claim_id), '{}') INTO ended FROM gone g;
        IF NOT claim_run.acks <@ ended THEN
            other.number := 0;
            PERFORM headwater.ack_claims(claim_run.namespace_id, claim_run.subscriber_id,
                ARRAY(SELECT a FROM unnest(claim_run.acks) a WHERE a <> ALL (ended)), other, false);
        END IF;
    END IF;
END
$$;
