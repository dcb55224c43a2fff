-- headwater.reap_unhandled(namespace, grace, subscriber_id, max_events, letters, settled)
-- Public: in docs/sql.md.
-- Settles events that nobody handles. They lie at or below the frontier of a shared subscriber,
-- because claims left them for workers of other types, and no live node has handled their type for
-- `grace`. These events become dead letters, with the reason:
--   messages     an event without a stream, unless a subscriber of a live node names its type. A
--                node must have emitted it (the header producer_node_id says so). If only handlers
--                read the namespace, anybody except an import may have emitted it.
--   dead nodes   an event whose type is handled by a node that is not alive, but not forgotten.
--   second try   an event that a worker had before. A redriven letter is dead again.
-- All other events count as done, because others get them: events of a stream and imported events
-- are history, a broadcast goes to each node, and an event without a producer goes to the
-- namespace's other subscribers.
-- The time counts from the first call that finds nobody. It starts anew if no call was made for
-- `grace` or for 10 minutes, whichever is longer. So if all nodes were down, the first node that
-- comes back does not give up the types of the others.
-- Returns how many events became letters, and how many were settled in all. Call again until
-- nothing is settled.
-- Raises: WH001, WH002, WH006. Locks: the queue. Writes: unhandled_types, claims, retries, dead
-- letters.
CREATE OR REPLACE FUNCTION headwater.reap_unhandled(
    namespace text, grace interval DEFAULT '5 minutes', subscriber_id text DEFAULT 'handlers', max_events int DEFAULT 5000,
    OUT letters bigint, OUT settled bigint,
    caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns         headwater_private.namespaces := headwater_private.open_namespace(reap_unhandled.namespace, caller, 'consumer');
    at         timestamptz := clock_timestamp();
    -- The types that the queue takes (NULL: all types).
    takes      text[];
    waiting    text[];
    doomed     text[];
    -- The doomed types that some node handles, alive or not, and those that a live node names.
    known      text[];
    subscribed text[];
    -- Whether somebody other than handlers reads the namespace.
    read_      boolean;
    made       headwater_private.claims[];
    claim      headwater_private.claims;
    lot        record;
BEGIN
    letters := 0;
    settled := 0;
    PERFORM headwater_private.check_interval('grace', reap_unhandled.grace, '0', '1000 years', 'grace is an interval from 0 to 1000 years');
    PERFORM headwater_private.check_max_events(reap_unhandled.max_events);
    PERFORM headwater_private.lock_queue(ns.namespace_id, reap_unhandled.subscriber_id);
    SELECT s.event_types INTO takes FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = reap_unhandled.subscriber_id AND s.partition = 0;
    waiting := ARRAY(
        SELECT w.event_type
          FROM (SELECT o.event_type
                  FROM headwater_private.queue_states q CROSS JOIN LATERAL unnest((q.state).open) o
                 WHERE q.namespace_id = ns.namespace_id AND q.subscriber_id = reap_unhandled.subscriber_id
                 UNION
                SELECT t.event_type FROM headwater_private.retries r, unnest(r.event_types) AS t(event_type)
                 WHERE r.namespace_id = ns.namespace_id AND r.subscriber_id = reap_unhandled.subscriber_id AND r.due_at <= at) w
         -- What the queue does not take, it settles itself.
         WHERE (takes IS NULL OR headwater_private.matches_pattern(w.event_type, takes))
           AND NOT EXISTS (SELECT FROM headwater_private.nodes n
                            WHERE n.namespace_id = ns.namespace_id AND n.stopped_at IS NULL
                              AND n.last_heartbeat >= at - 3 * n.heartbeat_every
                              AND headwater_private.matches_pattern(w.event_type, coalesce(n.handled_types, n.event_types))));
    DELETE FROM headwater_private.unhandled_types u
     WHERE u.namespace_id = ns.namespace_id AND u.subscriber_id = reap_unhandled.subscriber_id AND u.event_type <> ALL (waiting);
    INSERT INTO headwater_private.unhandled_types AS u (namespace_id, subscriber_id, event_type, since, checked_at)
    SELECT ns.namespace_id, reap_unhandled.subscriber_id, w.event_type, at, at FROM unnest(waiting) AS w(event_type)
    ON CONFLICT (namespace_id, subscriber_id, event_type) DO UPDATE
       SET since = CASE WHEN u.checked_at < at - greatest(reap_unhandled.grace, interval '10 minutes') THEN at ELSE u.since END,
           checked_at = at;
    doomed := ARRAY(SELECT u.event_type FROM headwater_private.unhandled_types u
                     WHERE u.namespace_id = ns.namespace_id AND u.subscriber_id = reap_unhandled.subscriber_id
                       AND u.since <= at - reap_unhandled.grace);
    IF doomed = '{}' THEN
        RETURN;
    END IF;
    read_ := EXISTS (SELECT FROM headwater_private.subscribers s
                      WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id <> reap_unhandled.subscriber_id
                        AND s.subscriber_id NOT LIKE 'broadcast:%');
    SELECT coalesce(array_agg(d.event_type) FILTER (WHERE n.handles), '{}'), coalesce(array_agg(d.event_type) FILTER (WHERE n.has), '{}')
      INTO known, subscribed
      FROM unnest(doomed) AS d(event_type)
     CROSS JOIN LATERAL (
         SELECT bool_or(headwater_private.matches_pattern(d.event_type, coalesce(n.handled_types, n.event_types))) AS handles,
                bool_or(headwater_private.matches_pattern(d.event_type, n.event_types))
                    FILTER (WHERE n.stopped_at IS NULL AND n.last_heartbeat >= at - 3 * n.heartbeat_every) AS has
           FROM headwater_private.nodes n WHERE n.namespace_id = ns.namespace_id) n;
    SELECT t.made INTO made
      FROM headwater_private.take_claims(reap_unhandled.namespace, reap_unhandled.subscriber_id, reap_unhandled.max_events, interval '1 minute', doomed,
                                 NULL, NULL, 4, NULL, NULL, 1000000, true, caller) t;
    FOREACH claim IN ARRAY made LOOP
        -- A statement of its own, which sees everything that the claim saw.
        FOR lot IN
            SELECT e.event_type, e.for_handlers, array_agg(e.global_sequence ORDER BY e.global_sequence) AS sequences
              FROM (SELECT e.event_type, e.global_sequence,
                           NOT h.headers ? 'broadcast'
                           AND (claim.attempts + claim.uncounted > 1 OR e.event_type = ANY (known)
                                OR e.stream_id IS NULL AND e.event_type <> ALL (subscribed)
                                   AND (h.headers ? 'producer_node_id' OR NOT read_ AND NOT h.headers ? 'import')) AS for_handlers
                      FROM headwater_private.claimed_events(ns.namespace_id, claim.first_sequence, claim.last_sequence, claim.event_types, claim.sequences) e
                     CROSS JOIN LATERAL (SELECT coalesce(e.headers, '{}') AS headers) h) e
             GROUP BY e.event_type, e.for_handlers
        LOOP
            settled := settled + cardinality(lot.sequences);
            IF lot.for_handlers THEN
                letters := letters + cardinality(lot.sequences);
                PERFORM headwater.nack(reap_unhandled.namespace, reap_unhandled.subscriber_id, claim.claim_id, lot.sequences, interval '0',
                                       format('no handler for event %s', lot.event_type), true);
            ELSE
                PERFORM headwater.ack(reap_unhandled.namespace, reap_unhandled.subscriber_id, claim.claim_id, lot.sequences);
            END IF;
        END LOOP;
    END LOOP;
END
$$;
