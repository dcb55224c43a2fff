-- headwater_private.tend_queue(namespace, one, newest, acks, letters, types, likes, takes,
-- together, size, moment, q, room, made, ended)
-- Does what a claim has to do before it takes events from the log. It acks claims. If there is
-- room, it also takes back what has expired, queues letters, closes gaps, and makes claims, like
-- `one`, of events that are to be delivered again and are due. It takes events of `types`, or of
-- types like one of `likes` if that is not NULL. Both NULL: of all types.
-- The holder of the lock sees everything that the earlier holders committed, so its moments never
-- go back. What was searched once, up to a moment, needs no second search.
-- A suspect is an event whose worker was lost. It is handed out alone, and a worker has only one
-- suspect at a time. If this worker is lost too, we know which event it had begun, and the loss
-- counts as an attempt only for that event.
-- An event that is due and has a type that the queue no longer takes becomes a dead letter: no
-- claim would ever take it.
--   together  suspects are handed out like all other events, for a caller that does not handle them
--   takes     the types that the queue takes (NULL: all types): an event of another type that was
--             in a gap is settled
--   size      at most how many events one claim holds
--   newest    the number of the claim that carries the queue's state
--   ended     nothing of that claim is left to do
-- The caller holds the queue's lock.
-- Raises: WH006, WH014. Locks: claims. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater_private.tend_queue(
    namespace text, one headwater_private.claims, newest bigint, acks uuid[], letters boolean, types text[], likes text[], takes text[], together boolean,
    size int, moment timestamptz, INOUT q headwater_private.queue_state, INOUT room int, OUT made headwater_private.claims[], OUT ended boolean
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    any_type   constant boolean := types IS NULL AND likes IS NULL;
    queue_key  constant text := one.subscriber_id || '/' || one.namespace_id::text;
    candidates bigint[];
    step       record;
    due        record;
    retry      headwater_private.retries;
    -- How many retries are still to be tried.
    untried    int;
    before     bigint[];
    safe       bigint;
BEGIN
    made := '{}';
    ended := false;
    IF cardinality(acks) > 0 THEN
        ended := headwater_private.ack_claims(one.namespace_id, one.subscriber_id, acks, tend_queue.newest);
    END IF;
    IF room = 0 THEN
        RETURN;
    END IF;
    -- Repeat while there is more to take back, and nothing that is wanted was among it.
    LOOP
        SELECT array_agg(e.number), max(e.visible_at) INTO candidates, q.expired_from
          FROM (SELECT c.number, c.visible_at FROM headwater_private.claims c
                 WHERE c.subscriber_id || '/' || c.namespace_id::text = queue_key
                   AND c.visible_at >= q.expired_from AND c.visible_at <= moment
                   AND NOT (c.done AND c.number = tend_queue.newest)
                 ORDER BY c.visible_at, c.number + 0 LIMIT 100) e;
        -- If the page is full, there may be more.
        IF coalesce(cardinality(candidates), 0) < 100 THEN
            q.expired_from := moment;
        END IF;
        IF candidates IS NOT NULL OR q.skipped <> '{}' THEN
            step := headwater_private.expire_claims(one.namespace_id, one.subscriber_id, tend_queue.newest, candidates || q.skipped, moment,
                                                    'claim expired: worker %L neither finished nor extended it in time', q);
            q := step.q;
            ended := ended OR step.newest_ended;
        END IF;
        IF letters THEN
            letters := headwater_private.queue_letters(one.namespace_id, one.subscriber_id, moment);
        END IF;
        SELECT EXISTS (SELECT FROM headwater_private.retries r
                        WHERE r.subscriber_id || '/' || r.namespace_id::text = queue_key AND NOT r.suspect
                          AND r.due_at >= q.due_from AND r.due_at <= moment) AS others,
               EXISTS (SELECT FROM headwater_private.retries r
                        WHERE r.subscriber_id || '/' || r.namespace_id::text = queue_key AND r.suspect
                          AND r.due_at >= q.due_from AND r.due_at <= moment) AS suspects
          INTO due;
        IF due.suspects AND NOT together
           AND NOT (one.worker <> '' AND EXISTS (
               SELECT FROM headwater_private.claims c
                WHERE c.namespace_id = one.namespace_id AND c.subscriber_id = one.subscriber_id AND c.worker = one.worker
                  AND c.suspect AND NOT c.done)) THEN
            FOR retry IN SELECT r.* FROM headwater_private.retries r
                          WHERE r.subscriber_id || '/' || r.namespace_id::text = queue_key AND r.suspect
                            AND r.due_at >= q.due_from AND r.due_at <= moment
                            AND (any_type OR CASE WHEN likes IS NULL THEN r.event_types && types
                                                  ELSE EXISTS (SELECT FROM unnest(r.event_types) t WHERE t LIKE ANY (likes)) END)
                          ORDER BY r.due_at, r.number
            LOOP
                step := headwater_private.take_retry(retry, one, types, likes, 1);
                CONTINUE WHEN NOT step.taken;
                made := made || step.one;
                room := 0;
                EXIT;
            END LOOP;
        END IF;
        IF room > 0 AND (due.others OR due.suspects AND together) THEN
            LOOP
                untried := room;
                FOR retry IN SELECT r.* FROM headwater_private.retries r
                              WHERE r.subscriber_id || '/' || r.namespace_id::text = queue_key
                                AND r.suspect IN (false, together)
                                AND r.due_at >= q.due_from AND r.due_at <= moment
                                AND (any_type OR CASE WHEN likes IS NULL THEN r.event_types && types
                                                      ELSE EXISTS (SELECT FROM unnest(r.event_types) t WHERE t LIKE ANY (likes)) END)
                              ORDER BY r.due_at, r.number LIMIT room
                LOOP
                    EXIT WHEN room <= 0;
                    untried := untried - 1;
                    step := headwater_private.take_retry(retry, one, types, likes, room);
                    CONTINUE WHEN NOT step.taken;
                    made := made || CASE WHEN cardinality((step.one).sequences) <= size THEN ARRAY[step.one]
                                         ELSE headwater_private.split_claim(step.one, (step.one).sequences, true, NULL, NULL, NULL, false, size) END;
                    room := room - cardinality((step.one).sequences);
                END LOOP;
                -- Some of these events are gone, so there is room left. There may be other retries.
                EXIT WHEN room <= 0 OR untried > 0;
            END LOOP;
        END IF;
        -- The same candidates again: somebody has locked them.
        EXIT WHEN cardinality(made) > 0 OR NOT letters AND (q.expired_from >= moment OR candidates IS NOT DISTINCT FROM before);
        before := candidates;
    END LOOP;
    IF takes IS NOT NULL AND room > 0 AND (due.others OR due.suspects) THEN
        PERFORM headwater_private.settle_retries(one.namespace_id, one.subscriber_id, tend_queue.takes, q.due_from, moment, 100);
    END IF;
    IF due.others OR due.suspects THEN
        q.due_from := least(headwater_private.next_due(queue_key, q.due_from), moment);
    ELSE
        q.due_from := moment;
    END IF;
    IF q.gaps <> '{}' THEN
        -- Two statements, in this order: the second shows everything that committed before the
        -- horizon was read.
        SELECT h.horizon INTO safe FROM headwater_private.horizon_of(one.namespace_id) h;
        q := headwater_private.close_gaps(one.namespace_id, safe, tend_queue.takes, q);
    END IF;
END
$$;
