-- headwater_private.claim_with_care(namespace, subscriber_id, max_events, visibility, event_types, worker, max_attempts, settled, acks, together)
-- Claims as headwater.claim_ranges tells, whatever there is to care for: what has expired, is due, was left behind, appears in gaps.
-- One that holds the lock sees all that its predecessors committed, so its moments never go back: what it looked through once, up to a moment, needs no
-- second look. A clock that goes back by more than a second begins anew (turn_back).
-- An event whose worker was lost (a suspect) is handed out alone, and only one of them to a worker at a time: if that one is lost too, it is known which event it had
-- begun, and only that one counts it as an attempt. `together`: as any other, for who does not handle them.
-- Raises: WH001, WH002, WH006, WH012, WH013, WH014. Locks: the queue. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater_private.claim_with_care(
    namespace     text,
    subscriber_id text,
    max_events    int,
    visibility    interval,
    event_types   text[],
    worker        text,
    max_attempts  int,
    settled       bigint,
    acks          uuid[],
    together      boolean
) RETURNS TABLE (claim_id uuid, redelivery_count int, first_sequence bigint, last_sequence bigint, sequences bigint[], types text[],
                 visible_at timestamptz)
-- A plan that was made when the tables were empty must not read through them later; and planning each time costs more than all else here.
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns         headwater_private.namespaces := headwater_private.namespace_row(claim_with_care.namespace);
    queue_key  text := claim_with_care.subscriber_id || '/' || ns.namespace_id::text;
    subscriber record;
    newest     headwater_private.claims;
    ended      boolean := false;
    before     headwater_private.queue_state;
    q          headwater_private.queue_state;
    moment     timestamptz;
    room       int := claim_with_care.max_events;
    safe       bigint;
    step       record;
    candidates bigint[];
    retry      headwater_private.retries;
    one        headwater_private.claims;
    made       headwater_private.claims[] := '{}';
    -- How long a look at what expires may do, where claims are about.
    window_    constant interval := '250 ms';
    turned     boolean := false;
    due        record;
BEGIN
    PERFORM headwater_private.check_max_events(claim_with_care.max_events);
    PERFORM headwater_private.check_visibility(claim_with_care.visibility);
    PERFORM headwater_private.check_claim(claim_with_care.event_types, claim_with_care.worker, claim_with_care.max_attempts);
    PERFORM headwater_private.lock_queue(ns.namespace_id, claim_with_care.subscriber_id);
    SELECT s.mode, s.paused, s.position, s.pending_gaps, s.letters_epoch > s.letters_checked AS has_letters INTO subscriber
      FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = claim_with_care.subscriber_id AND s.partition = 0;
    IF NOT FOUND OR subscriber.mode <> 'shared' THEN
        PERFORM headwater_private.require_shared(ns.namespace_id, claim_with_care.subscriber_id);
    END IF;
    SELECT c.* INTO newest FROM headwater_private.claims c
     WHERE c.namespace_id = ns.namespace_id AND c.subscriber_id = claim_with_care.subscriber_id
     ORDER BY c.number DESC LIMIT 1;
    IF FOUND THEN
        before := newest.state;
    ELSE
        before := ROW(subscriber.position, subscriber.pending_gaps, '{}', '-infinity', '-infinity', '-infinity', '{}', '-infinity', NULL,
                      '-infinity');
    END IF;
    q := before;
    moment := clock_timestamp();
    IF moment < greatest(q.moment, q.expired_from, q.due_from) - interval '1 s' THEN
        q := headwater_private.turn_back(ns.namespace_id, claim_with_care.subscriber_id, moment, q);
        turned := true;
    END IF;
    moment := greatest(moment, q.moment, q.expired_from, q.due_from);

    IF cardinality(acks) > 0 THEN
        ended := coalesce(NOT newest.done AND newest.claim_id = ANY (acks), false);
        PERFORM headwater_private.ack_claims(ns.namespace_id, claim_with_care.subscriber_id, acks, newest, ended);
    END IF;
    IF subscriber.paused THEN
        room := 0;
    ELSE
        SELECT array_agg(e.number), max(e.visible_at) INTO candidates, q.expired_from
          FROM (SELECT c.number, c.visible_at FROM headwater_private.claims c
                 WHERE c.subscriber_id || '/' || c.namespace_id::text = queue_key
                   AND c.visible_at >= q.expired_from AND c.visible_at <= moment
                   AND NOT (c.done AND c.number = newest.number)
                 ORDER BY c.visible_at LIMIT 100) e;
        -- As many as were asked for: there may be more.
        IF coalesce(cardinality(candidates), 0) < 100 THEN
            q.expired_from := moment;
        END IF;
        IF candidates IS NOT NULL OR q.skipped <> '{}' THEN
            step := headwater_private.expire_claims(ns.namespace_id, claim_with_care.subscriber_id, newest.number, candidates || q.skipped, moment,
                                            q, ended);
            q := step.q;
            ended := step.newest_ended;
        END IF;
        IF subscriber.has_letters THEN
            PERFORM headwater_private.queue_letters(ns.namespace_id, claim_with_care.subscriber_id, moment);
        END IF;
        IF q.gaps <> '{}' THEN
            -- Two statements, in this order: the second sees all that was settled in the first.
            SELECT h.horizon INTO safe FROM headwater.horizon(claim_with_care.namespace) h;
            q := headwater_private.close_gaps(ns.namespace_id, safe, q);
        END IF;
    END IF;

    one.namespace_id := ns.namespace_id;
    one.subscriber_id := claim_with_care.subscriber_id;
    one.worker := coalesce(claim_with_care.worker, '');
    one.max_attempts := claim_with_care.max_attempts;
    one.visible_at := moment + claim_with_care.visibility;
    one.done := false;
    one.uncounted := 0;
    one.suspect := false;
    SELECT EXISTS (SELECT FROM headwater_private.retries r
                    WHERE r.subscriber_id || '/' || r.namespace_id::text = queue_key AND NOT r.suspect
                      AND r.due_at >= q.due_from AND r.due_at <= moment) AS others,
           EXISTS (SELECT FROM headwater_private.retries r
                    WHERE r.subscriber_id || '/' || r.namespace_id::text = queue_key AND r.suspect
                      AND r.due_at >= q.due_from AND r.due_at <= moment) AS suspects
      INTO due WHERE room > 0;
    IF due.suspects AND NOT claim_with_care.together
       AND NOT (one.worker <> '' AND EXISTS (
           SELECT FROM headwater_private.claims c
            WHERE c.namespace_id = ns.namespace_id AND c.subscriber_id = claim_with_care.subscriber_id AND c.worker = one.worker
              AND c.suspect AND NOT c.done AND NOT (ended AND c.number = newest.number))) THEN
        FOR retry IN SELECT r.* FROM headwater_private.retries r
                      WHERE r.subscriber_id || '/' || r.namespace_id::text = queue_key AND r.suspect
                        AND r.due_at >= q.due_from AND r.due_at <= moment
                        AND (claim_with_care.event_types IS NULL OR r.event_types && claim_with_care.event_types)
                      ORDER BY r.due_at, r.number
        LOOP
            one.sequences := headwater_private.take_retry(retry, claim_with_care.event_types, 1);
            CONTINUE WHEN one.sequences = '{}';
            one.first_sequence := one.sequences[1];
            one.last_sequence := one.sequences[1];
            one.attempts := retry.attempts + 1;
            one.uncounted := retry.uncounted;
            one.suspect := true;
            one.failures := retry.failures;
            one.of_letter := retry.of_letter;
            one.number := nextval('headwater_private.claim_numbers');
            one.claim_id := gen_random_uuid();
            made := made || one;
            room := 0;
            EXIT;
        END LOOP;
    END IF;
    IF room > 0 AND (due.others OR due.suspects AND claim_with_care.together) THEN
        FOR retry IN SELECT r.* FROM headwater_private.retries r
                      WHERE r.subscriber_id || '/' || r.namespace_id::text = queue_key
                        AND r.suspect IN (false, claim_with_care.together)
                        AND r.due_at >= q.due_from AND r.due_at <= moment
                        AND (claim_with_care.event_types IS NULL OR r.event_types && claim_with_care.event_types)
                      ORDER BY r.due_at, r.number LIMIT room
        LOOP
            EXIT WHEN room <= 0;
            one.sequences := headwater_private.take_retry(retry, claim_with_care.event_types, room);
            CONTINUE WHEN one.sequences = '{}';
            one.first_sequence := one.sequences[1];
            one.last_sequence := one.sequences[cardinality(one.sequences)];
            one.attempts := retry.attempts + 1;
            one.uncounted := retry.uncounted;
            one.failures := retry.failures;
            one.of_letter := retry.of_letter;
            one.number := nextval('headwater_private.claim_numbers');
            one.claim_id := gen_random_uuid();
            made := made || one;
            room := room - cardinality(one.sequences);
        END LOOP;
    END IF;
    IF due.others OR due.suspects THEN
        q.due_from := least(headwater_private.next_due(queue_key, q.due_from), moment);
    ELSIF due IS NOT NULL THEN
        q.due_from := moment;
    END IF;

    IF room > 0 THEN
        one.attempts := 1;
        one.uncounted := 0;
        one.failures := '[]';
        one.of_letter := false;
    END IF;
    IF room > 0 AND q.open <> '{}' THEN
        step := headwater_private.take_open(ns.namespace_id, claim_with_care.event_types, room, q);
        q := step.q;
        one.sequences := step.taken;
        IF one.sequences <> '{}' THEN
            one.first_sequence := one.sequences[1];
            one.last_sequence := one.sequences[cardinality(one.sequences)];
            one.number := nextval('headwater_private.claim_numbers');
            one.claim_id := gen_random_uuid();
            made := made || one;
            room := room - cardinality(one.sequences);
        END IF;
    END IF;
    IF room > 0 THEN
        step := headwater_private.take_new(claim_with_care.namespace, ns.namespace_id, claim_with_care.event_types, room, claim_with_care.settled, q);
        q := step.q;
        one.first_sequence := step.first_sequence;
        one.last_sequence := step.last_sequence;
        one.sequences := step.sequences;
        IF one.first_sequence IS NOT NULL THEN
            one.event_types := claim_with_care.event_types;
            one.number := nextval('headwater_private.claim_numbers');
            one.claim_id := gen_random_uuid();
            made := made || one;
        END IF;
    END IF;

    q.moment := moment;
    IF made <> '{}' THEN
        q.last_visible_at := greatest(q.last_visible_at, one.visible_at);
    END IF;
    IF NOT subscriber.paused THEN
        q.look_at := least(headwater_private.look_at(queue_key, q, moment, window_), CASE WHEN made <> '{}' THEN one.visible_at END);
    END IF;
    IF made = '{}' THEN
        -- What was only looked through is noted now and then, while there are claims that may be among it; what is due sooner than was known, at once.
        IF ROW(q.frontier, q.gaps, q.open, q.skipped) IS NOT DISTINCT FROM ROW(before.frontier, before.gaps, before.open, before.skipped)
           AND NOT turned
           AND (subscriber.paused
                OR q.look_at >= before.look_at AND (before.look_at = 'infinity' OR moment < before.expired_from + window_)) THEN
            IF ended THEN
                UPDATE headwater_private.claims c SET done = true
                 WHERE c.namespace_id = ns.namespace_id AND c.subscriber_id = claim_with_care.subscriber_id AND c.number = newest.number;
            END IF;
            RETURN;
        END IF;
        one.first_sequence := 0;
        one.last_sequence := 0;
        one.sequences := '{}';
        one.number := nextval('headwater_private.claim_numbers');
        one.claim_id := gen_random_uuid();
        one.done := true;
        made := ARRAY[one];
    END IF;
    INSERT INTO headwater_private.claims (namespace_id, attempts, max_attempts, of_letter, done, counts, suspect, uncounted, number, first_sequence,
                                  last_sequence, visible_at, claim_id, subscriber_id, worker, event_types, sequences, failures, state)
    SELECT m.namespace_id, m.attempts, m.max_attempts, m.of_letter, m.done, cardinality(made) = 1 AND m.first_sequence = m.last_sequence, m.suspect,
           m.uncounted, m.number, m.first_sequence, m.last_sequence, m.visible_at, m.claim_id, m.subscriber_id, m.worker, m.event_types,
           m.sequences, m.failures, q
      FROM unnest(made) m;
    IF newest.done OR ended THEN
        DELETE FROM headwater_private.claims c
         WHERE c.namespace_id = ns.namespace_id AND c.subscriber_id = claim_with_care.subscriber_id AND c.number = newest.number;
    END IF;
    RETURN QUERY SELECT m.claim_id, m.attempts - 1 + m.uncounted, m.first_sequence, m.last_sequence, m.sequences, m.event_types, m.visible_at
                   FROM unnest(made) m WHERE NOT m.done;
END
$$;
