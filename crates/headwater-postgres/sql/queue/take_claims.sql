-- headwater_private.take_claims(namespace, subscriber_id, max_events, visibility, types, likes,
-- worker, max_attempts, acks, per_claim, max_scan, together, caller)
-- Claims events as headwater.claim describes, and returns the claims without their events. It takes
-- events of `types`, or of types like one of `likes` if that is not NULL. Both NULL: of all types
-- that the queue takes. What the queue takes is read under the lock, so a later change counts for
-- every event that is not passed here.
-- Most claims ack the claim before and take the next events of the log. That takes few steps,
-- because the steps cost more than the rows: the lock, the state, a look at the log if the last
-- look did not reach far enough, the new claim, and the acks. The order matters, because what a
-- statement sees is decided before it waits for a lock. If the state says that there is more to do,
-- tend_queue does that first: there are letters to queue, it is time to look for what has expired
-- or is due, there are gaps, claims were skipped, or the clock went back.
-- Usually one range of events that were never delivered is all that was claimed. Then claim_id,
-- first_sequence, last_sequence, of_types and one_table describe it, and `made` is empty.
-- Otherwise, and always if `together`, `made` has all claims.
--   together  see tend_queue
--   new_from  the place in `made` of the first claim with events after the frontier, if there is
--             one
--   more      max_scan events were looked at, and nothing was found
-- Raises: WH001, WH002 (a type that the queue does not take, unless `together`), WH006, WH012,
-- WH013, WH014. Locks: the queue. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater_private.take_claims(
    namespace text, subscriber_id text, max_events int, visibility interval, types text[], likes text[], worker text, max_attempts int,
    acks uuid[], per_claim int, max_scan bigint, together boolean, caller name,
    OUT namespace_id int, OUT claim_id uuid, OUT first_sequence bigint, OUT last_sequence bigint, OUT of_types text[], OUT one_table boolean,
    OUT made headwater_private.claims[], OUT new_from int, OUT more boolean
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- While somebody holds claims, search for expired ones again after this time at the latest.
    window_ constant interval := '250 ms';
    acking  constant boolean := coalesce(cardinality(take_claims.acks) > 0, false);
    size    constant int := coalesce(take_claims.per_claim, take_claims.max_events);
    room    int := take_claims.max_events;
    queue   record;
    newest  record;
    q       headwater_private.queue_state;
    moment  timestamptz;
    visible timestamptz;
    turned  boolean := false;
    care    boolean;
    ended   boolean;
    -- What all claims that are made here have in common.
    one     headwater_private.claims;
    step    record;
    taken   bigint[];
    listed  boolean := false;
    behind  boolean;
    low     bigint;
    edge    bigint;
    -- The types that the queue takes, and those of them that are left for others when they are
    -- passed: see take_new.
    takes   text[];
    keeps   text[];
BEGIN
    more := false;
    IF NOT acking THEN
        PERFORM FROM headwater_private.namespaces n
           JOIN headwater_private.subscribers s ON s.namespace_id = n.namespace_id AND s.subscriber_id = take_claims.subscriber_id AND s.partition = 0
          WHERE n.namespace = take_claims.namespace
            AND (pg_has_role(take_claims.caller, current_user, 'USAGE')
                 OR headwater_private.is_granted(n.namespace_id, take_claims.caller, 'consumer'))
            AND s.mode = 'shared' AND s.letters_epoch <= s.letters_checked
            AND (take_claims.types IS NULL OR s.event_types IS NULL OR headwater_private.types_outside(take_claims.types, s.event_types) IS NULL)
            AND headwater_private.is_idle(n.namespace_id, take_claims.subscriber_id,
                                          CASE n.storage WHEN 'own' THEN 9223372036854775807 ELSE n.tail_after END, n.tail_from,
                                          take_claims.types, take_claims.likes);
        IF FOUND THEN
            made := '{}';
            RETURN;
        END IF;
    END IF;
    -- This is the lock of lock_queue. The next statement has a new snapshot, which shows everything
    -- that others have claimed. tail_after: events after it are in the table of current months. If
    -- the namespace has storage of its own, none of its events are.
    SELECT n.namespace_id, CASE n.storage WHEN 'own' THEN 9223372036854775807 ELSE n.tail_after END AS tail_after, n.tail_from, s.paused,
           s.letters_epoch > s.letters_checked AS letters INTO queue
      FROM headwater_private.namespaces n
      JOIN headwater_private.subscribers s ON s.namespace_id = n.namespace_id AND s.subscriber_id = take_claims.subscriber_id AND s.partition = 0
      JOIN headwater_private.queues l ON l.namespace_id = n.namespace_id AND l.subscriber_id = take_claims.subscriber_id
     WHERE n.namespace = take_claims.namespace
       AND (pg_has_role(take_claims.caller, current_user, 'USAGE')
            OR headwater_private.is_granted(n.namespace_id, take_claims.caller, 'consumer'))
       AND s.mode = 'shared'
       FOR UPDATE OF l;
    IF NOT FOUND THEN
        -- The queue is new, or something is wrong.
        namespace_id := (headwater_private.open_namespace(take_claims.namespace, caller, 'consumer')).namespace_id;
        PERFORM headwater_private.require_shared(namespace_id, take_claims.subscriber_id);
        PERFORM headwater_private.lock_queue(namespace_id, take_claims.subscriber_id);
        -- The subscriber may have been removed in the meantime.
        PERFORM headwater_private.require_shared(namespace_id, take_claims.subscriber_id);
        SELECT n.namespace_id, CASE n.storage WHEN 'own' THEN 9223372036854775807 ELSE n.tail_after END AS tail_after, n.tail_from, s.paused,
               s.letters_epoch > s.letters_checked AS letters INTO queue
          FROM headwater_private.namespaces n
          JOIN headwater_private.subscribers s ON s.namespace_id = n.namespace_id AND s.subscriber_id = take_claims.subscriber_id AND s.partition = 0
         WHERE n.namespace = take_claims.namespace;
    END IF;
    namespace_id := queue.namespace_id;
    -- This is what the view queue_states returns, if there is a claim. Read the namespace again
    -- too: it may have moved to other storage while the lock was waited for, and the statement
    -- above then has its old row. And the caller's grant may be gone by now.
    SELECT c.number, c.done, c.state, CASE s.storage WHEN 'own' THEN 9223372036854775807 ELSE s.tail_after END AS tail_after, s.tail_from,
           t.event_types AS takes,
           pg_has_role(take_claims.caller, current_user, 'USAGE')
               OR headwater_private.is_granted(s.namespace_id, take_claims.caller, 'consumer') AS granted INTO newest
      FROM headwater_private.namespaces s
      LEFT JOIN headwater_private.subscribers t ON t.namespace_id = s.namespace_id AND t.subscriber_id = take_claims.subscriber_id AND t.partition = 0
      LEFT JOIN LATERAL (SELECT c.number, c.done, c.state FROM headwater_private.claims c
                          WHERE c.namespace_id = s.namespace_id AND c.subscriber_id = take_claims.subscriber_id
                          ORDER BY c.number DESC LIMIT 1) c ON true
     WHERE s.namespace_id = queue.namespace_id;
    IF newest.granted IS NOT TRUE THEN
        PERFORM headwater_private.open_namespace(take_claims.namespace, caller, 'consumer');
    END IF;
    queue.tail_after := newest.tail_after;
    queue.tail_from := newest.tail_from;
    takes := newest.takes;
    IF takes IS NOT NULL THEN
        IF take_claims.types IS NULL THEN
            take_claims.types := takes;
            IF position('*' IN array_to_string(takes, '')) > 0 THEN
                take_claims.likes := headwater_private.as_likes(takes);
            END IF;
            keeps := '{}';
        ELSE
            IF NOT (take_claims.together OR take_claims.types <@ takes) THEN
                PERFORM headwater_private.check_taken(take_claims.subscriber_id, take_claims.types, takes);
            END IF;
            keeps := CASE WHEN takes <@ take_claims.types THEN '{}' ELSE takes END;
        END IF;
    END IF;
    IF newest.number IS NULL THEN
        SELECT n.number, false AS done, n.state INTO newest FROM headwater_private.queue_states n
         WHERE n.namespace_id = queue.namespace_id AND n.subscriber_id = take_claims.subscriber_id;
    END IF;
    q := newest.state;
    ended := newest.done;
    moment := clock_timestamp();
    IF moment < greatest(q.moment, q.expired_from, q.due_from) - interval '1 s' THEN
        q := headwater_private.turn_back(namespace_id, take_claims.subscriber_id, moment, q);
        turned := true;
    END IF;
    moment := greatest(moment, q.moment, q.expired_from, q.due_from);
    care := turned OR queue.paused OR queue.letters OR newest.number IS NULL OR moment >= q.look_at OR q.gaps <> '{}' OR q.skipped <> '{}';
    q.moment := moment;
    visible := moment + take_claims.visibility;
    IF care THEN
        one := headwater_private.new_claim(namespace_id, take_claims.subscriber_id, take_claims.worker, take_claims.max_attempts, visible);
        room := CASE WHEN queue.paused THEN 0 ELSE room END;
        step := headwater_private.tend_queue(take_claims.namespace, one, newest.number, take_claims.acks, queue.letters, take_claims.types,
                                             take_claims.likes, takes, take_claims.together, size, moment, q, room);
        q := step.q;
        room := step.room;
        made := step.made;
        ended := ended OR step.ended;
    END IF;
    IF room BETWEEN 1 AND 5000 AND NOT care AND take_claims.types IS NOT NULL AND take_claims.likes IS NULL AND cardinality(q.open) <= 1
       AND coalesce((q.open[1]).first_sequence - 1, q.frontier) >= queue.tail_after AND coalesce(take_claims.max_scan >= 2 * room, true)
       AND (q.known >= q.frontier AND q.known_of <@ take_claims.types AND q.open = '{}') IS NOT TRUE THEN
        -- Most claims of some types take from one open range, or pass at most one other type. For
        -- them one look is enough. take_open and take_new do the same for all other claims, in more
        -- steps.
        behind := coalesce((q.open[1]).event_type = ANY (take_claims.types), false);
        low := CASE WHEN behind THEN (q.open[1]).first_sequence ELSE q.frontier + 1 END;
        edge := CASE WHEN behind THEN least(low + 2 * room, (q.open[1]).last_sequence + 1) ELSE low + greatest(2 * room, 64) END;
        of_types := CASE WHEN behind THEN ARRAY[(q.open[1]).event_type] ELSE take_claims.types END;
        SELECT array_agg(e.global_sequence) FILTER (WHERE e.event_type = ANY (take_claims.of_types)) AS taken, low + count(*) - 1 AS run,
               max(e.global_sequence) AS highest, array_agg(e.event_type) FILTER (WHERE e.event_type <> ALL (take_claims.of_types)) AS others
          INTO step
          FROM (SELECT e.global_sequence, e.event_type FROM headwater_private.tail_events() e
                 WHERE e.namespace_id = queue.namespace_id AND e.global_sequence >= low AND e.global_sequence < edge
                 ORDER BY e.global_sequence) e;
        IF step.highest = step.run AND cardinality(step.taken) >= least(room, greatest(room - room / 4, 32))
           AND (behind OR step.others IS NULL OR keeps = '{}'
                OR keeps IS NULL AND step.others[1] = ALL (step.others)
                   AND (q.open = '{}' OR (q.open[1]).event_type = step.others[1] AND (q.open[1]).last_sequence = q.frontier)) THEN
            taken := CASE WHEN cardinality(step.taken) > room THEN step.taken[1:room] ELSE step.taken END;
            edge := CASE WHEN cardinality(step.taken) < room THEN step.highest ELSE taken[room] END;
            IF behind THEN
                q.open := CASE WHEN edge < (q.open[1]).last_sequence
                               THEN ARRAY[ROW(edge + 1, (q.open[1]).last_sequence, (q.open[1]).event_type)::headwater_private.open_range]
                               ELSE '{}' END;
            ELSE
                IF edge > q.frontier + cardinality(taken) AND keeps = '{}' THEN
                    -- The events that were passed are settled.
                    NULL;
                ELSIF edge > q.frontier + cardinality(taken) THEN
                    q.open := ARRAY[ROW(coalesce((q.open[1]).first_sequence, low), edge, step.others[1])::headwater_private.open_range];
                ELSE
                    of_types := NULL;
                    IF q.open = '{}' THEN
                        IF coalesce(q.known <= edge, true) AND cardinality(take_claims.types) <= 20 THEN
                            -- The next claim checks whether the log continues like this. Each row
                            -- of a claim stores the list of types, so a long list is not stored.
                            q.known := edge;
                            q.known_of := take_claims.types;
                        END IF;
                    ELSIF (q.open[1]).last_sequence = q.frontier THEN
                        q.open := ARRAY[ROW((q.open[1]).first_sequence, edge, (q.open[1]).event_type)::headwater_private.open_range];
                    END IF;
                END IF;
                q.frontier := edge;
            END IF;
            first_sequence := taken[1];
            last_sequence := taken[cardinality(taken)];
            one_table := true;
            room := 0;
        END IF;
    END IF;
    IF room > 0 AND q.open <> '{}' THEN
        step := headwater_private.take_open(namespace_id, queue.tail_after, queue.tail_from, take_claims.types, take_claims.likes, room,
                                            take_claims.max_scan, q);
        q := step.q;
        more := step.more;
        taken := step.taken;
        IF taken <> '{}' THEN
            room := room - cardinality(taken);
            first_sequence := taken[1];
            last_sequence := taken[cardinality(taken)];
            of_types := step.of_types;
            one_table := step.one_table;
            listed := step.listed;
        END IF;
    END IF;
    -- Most of the requested events are enough, as in take_new.
    IF room > 0 AND NOT more AND coalesce(cardinality(taken) < greatest(3 * room, 32), true) THEN
        IF first_sequence IS NOT NULL THEN
            one := headwater_private.new_claim(namespace_id, take_claims.subscriber_id, take_claims.worker, take_claims.max_attempts, visible);
            made := made || headwater_private.split_claim(one, taken, listed, first_sequence, last_sequence, of_types, one_table, size);
        END IF;
        IF q.known >= q.frontier + room AND q.frontier >= queue.tail_after
           AND (take_claims.types IS NULL OR q.known_of <@ take_claims.types AND q.open = '{}') THEN
            -- Up to `known` the log was seen without a hole, and with only wanted events. And no
            -- month of it can have been trimmed.
            first_sequence := q.frontier + 1;
            last_sequence := q.frontier + room;
            q.frontier := last_sequence;
            taken := NULL;
            of_types := NULL;
            listed := false;
            one_table := true;
        ELSE
            step := headwater_private.take_new(take_claims.namespace, namespace_id, queue.tail_after, queue.tail_from, take_claims.types,
                                               take_claims.likes, keeps, room, care, take_claims.max_scan, q);
            q := step.q;
            more := step.more;
            first_sequence := step.first_sequence;
            last_sequence := step.last_sequence;
            of_types := step.of_types;
            one_table := step.one_table;
            taken := step.taken;
            listed := step.listed;
        END IF;
        new_from := cardinality(made) + 1;
    END IF;

    IF first_sequence IS NOT NULL AND coalesce(cardinality(made), 0) = 0 AND NOT care AND NOT listed AND NOT take_claims.together
       AND coalesce(cardinality(taken), last_sequence - first_sequence + 1) <= size THEN
        -- Most claims take this path. It does what save_queue does, for one claim.
        more := false;
        q.last_visible_at := greatest(q.last_visible_at, visible);
        q.look_at := least(q.look_at, visible);
        claim_id := gen_random_uuid();
        INSERT INTO headwater_private.claims (namespace_id, attempts, max_attempts, of_letter, done, counts, number, first_sequence, last_sequence,
                                      visible_at, claim_id, subscriber_id, worker, event_types, failures, state, one_table)
        VALUES (queue.namespace_id, 1, take_claims.max_attempts, false, false, take_claims.first_sequence = take_claims.last_sequence,
                nextval('headwater_private.claim_numbers'), take_claims.first_sequence, take_claims.last_sequence, visible, take_claims.claim_id,
                take_claims.subscriber_id, coalesce(take_claims.worker, ''), take_claims.of_types, '[]', q, take_claims.one_table);
        IF ended THEN
            DELETE FROM headwater_private.claims c
             WHERE c.namespace_id = queue.namespace_id AND c.subscriber_id = take_claims.subscriber_id AND c.number = newest.number;
        END IF;
    ELSE
        made := coalesce(made, '{}');
        IF first_sequence IS NOT NULL THEN
            one := headwater_private.new_claim(namespace_id, take_claims.subscriber_id, take_claims.worker, take_claims.max_attempts, visible);
            made := made || headwater_private.split_claim(one, taken, listed, first_sequence, last_sequence, of_types, one_table, size);
        END IF;
        more := more AND cardinality(made) = 0;
        IF cardinality(made) > 0 THEN
            q.last_visible_at := greatest(q.last_visible_at, visible);
            q.look_at := least(q.look_at, visible);
        END IF;
        IF care AND NOT queue.paused THEN
            q.look_at := least(headwater_private.next_look(take_claims.subscriber_id || '/' || namespace_id::text, q, moment, window_),
                               CASE WHEN cardinality(made) > 0 THEN visible END);
        END IF;
        -- If the queue was only searched, that is recorded now and then, while there are claims
        -- that may expire. If something is due sooner than was known, that is recorded at once.
        IF cardinality(made) = 0 AND NOT turned
           AND (q.frontier, q.gaps, q.open, q.skipped)
               IS NOT DISTINCT FROM ((newest.state).frontier, (newest.state).gaps, (newest.state).open, (newest.state).skipped)
           AND (queue.paused OR NOT care
                OR q.look_at >= (newest.state).look_at
                   AND ((newest.state).look_at = 'infinity' OR moment < (newest.state).expired_from + window_)) THEN
            IF acking AND NOT care THEN
                PERFORM headwater_private.ack_claims(namespace_id, take_claims.subscriber_id, take_claims.acks, newest.number);
            END IF;
            RETURN;
        END IF;
        PERFORM headwater_private.save_queue(namespace_id, take_claims.subscriber_id, newest.number, ended, made, q);
    END IF;
    IF acking AND NOT care THEN
        IF cardinality(take_claims.acks) = 1 THEN
            -- Most acks take this path.
            DELETE FROM headwater_private.claims c
             WHERE c.claim_id = take_claims.acks[1] AND NOT c.done AND NOT c.of_letter
               -- IS NOT DISTINCT FROM uses no index: the index on claim_id is the right one, as in
               -- held_claim.
               AND c.namespace_id IS NOT DISTINCT FROM queue.namespace_id AND c.subscriber_id IS NOT DISTINCT FROM take_claims.subscriber_id;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
        PERFORM headwater_private.ack_claims(namespace_id, take_claims.subscriber_id, take_claims.acks, NULL);
    END IF;
END
$$;
