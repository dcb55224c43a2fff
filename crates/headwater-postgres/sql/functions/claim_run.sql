-- headwater.claim_run(namespace, subscriber_id, max_events, visibility, worker, max_attempts, settled, acks)
-- What headwater.claim_with_care does where there is nothing to care for but the next events of the log, in one statement, since the steps of a
-- function cost more than its rows. Answers the claim: all events in its range. `idle`: there is nothing to claim, to ack or to note. Neither, with
-- nothing written but the queue locked, when care is needed: input that is wrong, a subscriber that is paused, not shared or new, letters to
-- queue, a claim that has expired, a retry that is due, gaps, open ranges, an ack of a letter or of a lost claim, a hole in the log.
-- Raises: WH014 if one of the acks is lost meanwhile. Locks: the queue. Writes: claims.
CREATE OR REPLACE FUNCTION headwater.claim_run(
    namespace text, subscriber_id text, max_events int, visibility interval, worker text, max_attempts int, settled bigint, acks uuid[],
    OUT namespace_id int, OUT claim_id uuid, OUT first_sequence bigint, OUT last_sequence bigint, OUT visible_at timestamptz,
    OUT idle boolean
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    queue_key text;
    ended     uuid[];
BEGIN
    IF (claim_run.max_events BETWEEN 1 AND 100000 AND claim_run.visibility > interval '0' AND claim_run.visibility <= interval '30 days'
        AND claim_run.max_attempts >= 1 AND array_position(claim_run.acks, NULL) IS NULL
        AND coalesce(octet_length(claim_run.worker) BETWEEN 1 AND 255 AND claim_run.worker !~ '[\x01-\x1f\x7f]', true)
        AND current_setting('transaction_isolation') = 'read committed' AND NOT pg_is_in_recovery()) IS NOT TRUE THEN
        RETURN;
    END IF;
    -- The next statement has a snapshot of its own, in which all is visible that others have claimed.
    SELECT n.namespace_id, claim_run.subscriber_id || '/' || n.namespace_id::text,
           headwater.lock_queue(n.namespace_id, claim_run.subscriber_id)
      INTO claim_run.namespace_id, queue_key
      FROM headwater.namespaces n WHERE n.namespace = claim_run.namespace;
    WITH newest AS MATERIALIZED (
        SELECT c.number, c.claim_id, c.done, (c.state).frontier, (c.state).last_visible_at,
               (c.state).expired_from, (c.state).due_from, greatest(clock_timestamp(), (c.state).expired_from, (c.state).due_from) AS moment
          FROM (SELECT c.* FROM headwater.claims c
                 WHERE c.namespace_id = claim_run.namespace_id AND c.subscriber_id = claim_run.subscriber_id
                 ORDER BY c.number DESC LIMIT 1) c
         WHERE (c.state).gaps = '{}' AND (c.state).open = '{}' AND (c.state).skipped = '{}'
    ), ready AS MATERIALIZED (
        SELECT n.*, p.events,
               CASE WHEN claim_run.settled > n.frontier THEN least(n.frontier + claim_run.max_events, claim_run.settled)
                    WHEN p.last = n.frontier + p.events THEN p.last END AS last
          FROM newest n
         CROSS JOIN LATERAL (
             SELECT max(e.global_sequence) AS last, count(*) AS events FROM (
                 SELECT e.global_sequence FROM headwater.events e
                  WHERE e.namespace_id = claim_run.namespace_id AND e.global_sequence > n.frontier
                    AND (claim_run.settled > n.frontier) IS NOT TRUE
                  ORDER BY e.global_sequence LIMIT claim_run.max_events) e) p
         -- OFFSET 0 keeps each a lookup by itself: a join could be made without the bounds of its index.
         WHERE EXISTS (SELECT FROM headwater.subscribers s
                        WHERE s.namespace_id = claim_run.namespace_id AND s.subscriber_id = claim_run.subscriber_id AND s.partition = 0
                          AND s.mode = 'shared' AND NOT s.paused AND s.letters_epoch <= s.letters_checked OFFSET 0)
           AND NOT EXISTS (SELECT FROM headwater.claims c
                            WHERE c.subscriber_id || '/' || c.namespace_id::text = queue_key
                              AND c.visible_at >= n.expired_from AND c.visible_at <= n.moment AND NOT (c.done AND c.number = n.number)
                           OFFSET 0)
           AND NOT EXISTS (SELECT FROM headwater.retries r
                            WHERE r.subscriber_id || '/' || r.namespace_id::text = queue_key
                              AND r.due_at >= n.due_from AND r.due_at <= n.moment OFFSET 0)
           AND (claim_run.acks IS NULL
                OR cardinality(claim_run.acks) = (
                    SELECT count(*) FROM headwater.claims c
                     WHERE c.claim_id = ANY (claim_run.acks) AND NOT c.done AND NOT c.of_letter
                       -- Not for an index, as in held_claim.
                       AND c.namespace_id IS NOT DISTINCT FROM claim_run.namespace_id
                       AND c.subscriber_id IS NOT DISTINCT FROM claim_run.subscriber_id))
    ), made AS (
        INSERT INTO headwater.claims (namespace_id, attempts, max_attempts, of_letter, done, number, first_sequence, last_sequence, visible_at,
                                      claim_id, subscriber_id, worker, failures, state)
        SELECT claim_run.namespace_id, 1, claim_run.max_attempts, false, false, nextval('headwater.claim_numbers'), r.frontier + 1, r.last,
               r.moment + claim_run.visibility, gen_random_uuid(), claim_run.subscriber_id, coalesce(claim_run.worker, ''), '[]',
               ROW(r.last, '{}', '{}', r.moment, r.moment, greatest(r.last_visible_at, r.moment + claim_run.visibility), '{}')::headwater.queue_state
          FROM ready r WHERE r.last IS NOT NULL
        RETURNING claim_id, first_sequence, last_sequence, visible_at
    ), gone AS (
        DELETE FROM headwater.claims c
         WHERE c.claim_id = ANY ((SELECT claim_run.acks || CASE WHEN r.done THEN r.claim_id END FROM ready r CROSS JOIN made)::uuid[])
           AND (NOT c.done OR c.number = (SELECT r.number FROM ready r))
        RETURNING c.claim_id
    )
    SELECT m.claim_id, m.first_sequence, m.last_sequence, m.visible_at, ARRAY(SELECT g.claim_id FROM gone g),
           r.last IS NULL AND r.events = 0 AND coalesce(claim_run.acks = '{}', true)
               AND (r.expired_from >= r.last_visible_at OR r.moment < r.expired_from + interval '250 ms')
      INTO claim_run.claim_id, claim_run.first_sequence, claim_run.last_sequence, claim_run.visible_at, ended, claim_run.idle
      FROM ready r LEFT JOIN made m ON true;
    IF claim_run.claim_id IS NOT NULL AND NOT claim_run.acks <@ ended THEN
        PERFORM headwater.claim_lost(claim_run.subscriber_id, ARRAY(SELECT a FROM unnest(claim_run.acks) a WHERE a <> ALL (ended)));
    END IF;
END
$$;
