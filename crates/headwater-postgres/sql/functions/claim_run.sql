-- headwater_private.claim_run(namespace, subscriber_id, max_events, visibility, worker, max_attempts, acks, per_claim, caller)
-- What headwater_private.claim_with_care does where there is nothing to care for but the next events of the log, in few steps, since these cost more
-- than its rows. Answers the claims, of per_claim events each, or one if that is NULL: all events in their range, which ends before a hole in
-- the log. `idle`: there is nothing to claim, to ack or to note. Neither, with nothing written, when care is needed: a caller without the
-- grant, input that is wrong, a subscriber that is paused, not shared or new, letters to
-- queue, time to look for what has expired or is due, a newest claim that is done, gaps, open ranges, a hole in the log that comes next, sealed months, acks
-- and no events. Callers set what keeps its plans to the indexes.
-- Raises: WH014 if one of the acks is lost. Locks: the queue. Writes: claims, acked letters.
CREATE OR REPLACE FUNCTION headwater_private.claim_run(
    namespace text, subscriber_id text, max_events int, visibility interval, worker text, max_attempts int, acks uuid[], per_claim int,
    caller name DEFAULT current_user, OUT namespace_id int, OUT claim_ids uuid[], OUT first_sequence bigint, OUT last_sequence bigint, OUT visible_at timestamptz,
    OUT idle boolean
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    size       bigint := coalesce(claim_run.per_claim, claim_run.max_events);
    -- Events that are looked at, so that the next claims need no look.
    ahead      constant int := greatest(claim_run.max_events, least(16 * claim_run.max_events::bigint, 2000));
    q          record;
    seen       record;
    ended      uuid[];
    other      headwater_private.claims;
    tail_after bigint;
    tail_from  timestamptz;
BEGIN
    IF (claim_run.max_events BETWEEN 1 AND 100000 AND claim_run.visibility > interval '0' AND claim_run.visibility <= interval '30 days'
        AND extract(year FROM claim_run.visibility) = 0 AND extract(day FROM claim_run.visibility) BETWEEN -1000 AND 1000
        AND claim_run.max_attempts >= 1 AND coalesce(claim_run.per_claim >= 1, true) AND array_position(claim_run.acks, NULL) IS NULL
        AND coalesce(octet_length(claim_run.worker) BETWEEN 1 AND 255 AND claim_run.worker !~ E'[\\x01-\\x1f\\x7f]', true)
        AND current_setting('transaction_isolation') = 'read committed' AND NOT pg_is_in_recovery()) IS NOT TRUE THEN
        RETURN;
    END IF;
    IF coalesce(cardinality(claim_run.acks), 0) = 0 THEN
        SELECT headwater_private.is_idle(n.namespace_id, claim_run.subscriber_id, n.tail_after, n.tail_from) INTO claim_run.idle
          FROM headwater_private.namespaces n
          JOIN headwater_private.subscribers s ON s.namespace_id = n.namespace_id AND s.subscriber_id = claim_run.subscriber_id AND s.partition = 0
         WHERE n.namespace = claim_run.namespace
           AND (pg_has_role(claim_run.caller, current_user, 'USAGE')
                OR EXISTS (SELECT FROM headwater_private.grants g
                            WHERE g.namespace_id = n.namespace_id AND g.kind IN ('consumer', 'admin')
                              AND pg_has_role(claim_run.caller, g.role::oid, 'USAGE')))
           AND s.mode = 'shared' AND NOT s.paused AND s.letters_epoch <= s.letters_checked;
        IF claim_run.idle THEN
            RETURN;
        END IF;
    END IF;
    -- The lock is that of lock_queue. The next statement has a snapshot of its own, in which all is visible that others have claimed.
    SELECT n.namespace_id, n.tail_after, n.tail_from INTO claim_run.namespace_id, tail_after, tail_from
      FROM headwater_private.namespaces n
      JOIN headwater_private.subscribers s ON s.namespace_id = n.namespace_id AND s.subscriber_id = claim_run.subscriber_id AND s.partition = 0
      JOIN headwater_private.queues l ON l.namespace_id = n.namespace_id AND l.subscriber_id = claim_run.subscriber_id
     WHERE n.namespace = claim_run.namespace
       AND (pg_has_role(claim_run.caller, current_user, 'USAGE')
            OR EXISTS (SELECT FROM headwater_private.grants g
                        WHERE g.namespace_id = n.namespace_id AND g.kind IN ('consumer', 'admin')
                          AND pg_has_role(claim_run.caller, g.role::oid, 'USAGE')))
       AND s.mode = 'shared' AND NOT s.paused AND s.letters_epoch <= s.letters_checked
       FOR UPDATE OF l;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- As newest_state does.
    SELECT n.* INTO q
      FROM (SELECT c.done, (c.state).frontier, (c.state).expired_from, (c.state).due_from, (c.state).last_visible_at, (c.state).look_at,
                   (c.state).known, (c.state).gaps, (c.state).open, (c.state).skipped,
                   greatest((c.state).moment, (c.state).expired_from, (c.state).due_from) AS looked_to,
                   greatest(clock_timestamp(), (c.state).moment, (c.state).expired_from, (c.state).due_from) AS moment
              FROM headwater_private.claims c
             WHERE c.namespace_id = claim_run.namespace_id AND c.subscriber_id = claim_run.subscriber_id
             ORDER BY c.number DESC LIMIT 1) n
     WHERE n.gaps = '{}' AND n.open = '{}' AND n.skipped = '{}'
       AND clock_timestamp() >= n.looked_to - interval '1 s' AND n.frontier >= tail_after AND n.moment < n.look_at;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF (q.known >= q.frontier + claim_run.max_events) IS NOT TRUE THEN
        SELECT q.frontier + count(*) AS known, min(e.global_sequence) AS lowest, max(e.global_sequence) AS highest INTO seen
          FROM (SELECT e.global_sequence FROM headwater_private.events e
                 WHERE e.namespace_id = claim_run.namespace_id AND e.global_sequence > q.frontier AND e.recorded_at >= tail_from
                 ORDER BY e.global_sequence LIMIT CASE WHEN q.done THEN 1 ELSE ahead END) e;
        IF seen.highest IS NULL THEN
            claim_run.idle := coalesce(cardinality(claim_run.acks), 0) = 0;
            RETURN;
        ELSIF seen.lowest > q.frontier + 1 THEN
            RETURN;
        END IF;
        q.known := seen.known;
        IF seen.highest <> seen.known THEN
            SELECT max(e.global_sequence) INTO q.known
              FROM (SELECT e.global_sequence, row_number() OVER (ORDER BY e.global_sequence) AS place FROM headwater_private.events e
                     WHERE e.namespace_id = claim_run.namespace_id AND e.global_sequence > q.frontier AND e.recorded_at >= tail_from
                     ORDER BY e.global_sequence LIMIT ahead) e
             WHERE e.global_sequence = q.frontier + e.place;
        END IF;
    END IF;
    IF q.done OR q.known IS NULL THEN
        RETURN;
    END IF;
    claim_run.first_sequence := q.frontier + 1;
    claim_run.last_sequence := least(q.frontier + claim_run.max_events, q.known);
    claim_run.visible_at := q.moment + claim_run.visibility;
    INSERT INTO headwater_private.claims (namespace_id, attempts, max_attempts, of_letter, done, counts, number, first_sequence, last_sequence,
                                  visible_at, claim_id, subscriber_id, worker, failures, state)
    VALUES (claim_run.namespace_id, 1, claim_run.max_attempts, false, false, claim_run.first_sequence = claim_run.last_sequence, nextval('headwater_private.claim_numbers'), claim_run.first_sequence,
            least(q.frontier + size, claim_run.last_sequence), claim_run.visible_at, gen_random_uuid(), claim_run.subscriber_id,
            coalesce(claim_run.worker, ''), '[]',
            ROW(claim_run.last_sequence, '{}', '{}', q.expired_from, q.due_from, greatest(q.last_visible_at, claim_run.visible_at), '{}',
                least(q.look_at, claim_run.visible_at), q.known, q.moment)::headwater_private.queue_state)
    RETURNING ARRAY[claim_id] INTO claim_run.claim_ids;
    IF claim_run.last_sequence - claim_run.first_sequence >= size THEN
        WITH others AS (
            INSERT INTO headwater_private.claims (namespace_id, attempts, max_attempts, of_letter, done, number, first_sequence, last_sequence,
                                          visible_at, claim_id, subscriber_id, worker, failures, state)
            SELECT c.namespace_id, c.attempts, c.max_attempts, c.of_letter, c.done, nextval('headwater_private.claim_numbers'), one.first,
                   least(one.first + size - 1, claim_run.last_sequence), c.visible_at, gen_random_uuid(), c.subscriber_id, c.worker,
                   c.failures, c.state
              FROM headwater_private.claims c
             CROSS JOIN generate_series(claim_run.first_sequence + size, claim_run.last_sequence, size) AS one(first)
             WHERE c.claim_id = claim_run.claim_ids[1]
            RETURNING claim_id, first_sequence
        )
        SELECT claim_run.claim_ids || array_agg(o.claim_id ORDER BY o.first_sequence) INTO claim_run.claim_ids FROM others o;
    END IF;
    IF cardinality(claim_run.acks) = 1 THEN
        -- Most acks are this.
        DELETE FROM headwater_private.claims c
         WHERE c.claim_id = claim_run.acks[1] AND NOT c.done AND NOT c.of_letter
           AND c.namespace_id IS NOT DISTINCT FROM claim_run.namespace_id AND c.subscriber_id IS NOT DISTINCT FROM claim_run.subscriber_id;
        IF NOT FOUND THEN
            other.number := 0;
            PERFORM headwater_private.ack_claims(claim_run.namespace_id, claim_run.subscriber_id, claim_run.acks, other, false);
        END IF;
    ELSIF claim_run.acks IS NOT NULL THEN
        WITH gone AS (
            DELETE FROM headwater_private.claims c
             WHERE c.claim_id = ANY (claim_run.acks) AND NOT c.done AND NOT c.of_letter
               -- Not for an index, as in held_claim.
               AND c.namespace_id IS NOT DISTINCT FROM claim_run.namespace_id AND c.subscriber_id IS NOT DISTINCT FROM claim_run.subscriber_id
            RETURNING c.claim_id
        )
        SELECT coalesce(array_agg(g.claim_id), '{}') INTO ended FROM gone g;
        IF NOT claim_run.acks <@ ended THEN
            other.number := 0;
            PERFORM headwater_private.ack_claims(claim_run.namespace_id, claim_run.subscriber_id,
                ARRAY(SELECT a FROM unnest(claim_run.acks) a WHERE a <> ALL (ended)), other, false);
        END IF;
    END IF;
END
$$;
