-- headwater_private.look_ahead(ns, sub, wanted, whole, event_types, likes, hold_for, settled,
-- settled_ids, parked_keys)
-- Finds what a partition may handle next: events that came late, in gaps that it passed, or
-- otherwise about `wanted` events after its position. It applies the same gate as nodes do:
-- - A contiguous run needs no proof. At a hole, it asks for the horizon: what is missing at or
--   below the horizon never comes.
-- - A hole above the horizon is held until the event behind it was recorded hold_for ago (NULL:
--   until it is proved), then passed.
-- - New events are read before the gaps are. So if a new event's stream had an earlier event in a
--   gap, that one is found there, and goes first.
-- In:
--   likes                 event_types as LIKE patterns if one of them holds a *, else NULL
--   whole                 late events are not cut off after `wanted`, because bundles must be whole
--   settled, settled_ids  events that were settled before, from headwater.load_subscriber
--   parked_keys           keys whose events wait behind a dead letter
-- Out:
--   sequences, keys, …    the events, in order, each with the key that keeps it in order, its
--                         transaction, its actor and its id
--   parks                 events of parked keys
--   seen                  all events after the position up to `reach`, of all partitions
--   passed                gaps there that were passed: first, last, first, last, …
--   ledger, late, …       the ledger without what will never come, and without events of other
--                         partitions, which are counted
--   is_full               there may be more after `reach` that can be read now
--   is_end                everything that was visible lies at or before `reach`
-- Raises: WH001, WH006, WH017. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.look_ahead(
    ns headwater_private.namespaces, sub headwater_private.subscribers, wanted int, whole boolean, event_types text[], likes text[], hold_for interval,
    settled bigint[], settled_ids uuid[], parked_keys text[],
    OUT sequences bigint[], OUT keys text[], OUT transaction_ids bigint[], OUT actors text[], OUT event_ids uuid[],
    OUT parks bigint[], OUT seen bigint[], OUT reach bigint, OUT passed bigint[], OUT ledger bigint[], OUT late bigint, OUT late_sum numeric,
    OUT is_full boolean, OUT is_end boolean
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most_ranges constant int := 1000;
    most_late   constant int := CASE WHEN whole THEN 100000 ELSE 1000 END;
    most_tries  constant int := 10;
    scan    int := greatest(wanted, least(wanted::bigint * sub.partitions, 10000), CASE WHEN event_types IS NOT NULL THEN 1000 END);
    poison  bigint[] := ARRAY(SELECT p.global_sequence FROM headwater_private.poison_events p
                               WHERE p.namespace_id = ns.namespace_id AND NOT p.redelivered ORDER BY 1);
    proved  boolean := sub.pending_gaps <> '{}';
    bounds  record;
    times   timestamptz[];
    gap     record;
    opened  bigint[];
    came    record;
    filled  bigint;
    count   int;
    looked  bigint;
    safe    bigint;
BEGIN
    IF event_types IS NOT NULL AND likes IS NULL AND sub.pending_gaps = '{}'
       AND (ns.sequence IS NULL OR pg_sequence_last_value(ns.sequence) - sub.position >= 2000)
       AND headwater_private.has_index(ns.namespace_id) THEN
        -- Far behind: what lies before the next event of these types is passed at once.
        SELECT h.horizon INTO safe FROM headwater_private.horizon_of(ns.namespace_id) h;
        -- A statement after the horizon: what it does not show at or below the horizon never comes.
        SELECT p.* INTO came FROM headwater_private.passed_by_type(ns.namespace_id, sub.position, least(safe, sub.barrier), event_types) p;
        IF came.reach IS NOT NULL THEN
            sequences := '{}';
            keys := '{}';
            transaction_ids := '{}';
            actors := '{}';
            event_ids := '{}';
            parks := '{}';
            seen := ARRAY(SELECT s.sequence FROM unnest(came.seen) AS s(sequence) WHERE s.sequence <> ALL (poison) ORDER BY 1);
            reach := came.reach;
            passed := '{}';
            ledger := '{}';
            late := 0;
            late_sum := 0;
            is_full := true;
            is_end := false;
            RETURN;
        END IF;
    END IF;
    FOR try IN 1 .. most_tries LOOP
        safe := 0;
        IF proved THEN
            -- A separate statement before the reads: what they do not show at or below the horizon
            -- never comes.
            SELECT h.horizon INTO safe FROM headwater_private.horizon_of(ns.namespace_id) h;
        END IF;
        SELECT l.* INTO bounds FROM headwater_private.log_bounds(ns.namespace_id, sub.position, sub.barrier, scan) l;
        LOOP
            SELECT coalesce(array_agg(e.sequence ORDER BY e.sequence), '{}'), array_agg(e.at ORDER BY e.sequence),
                   coalesce(array_agg(e.sequence ORDER BY e.sequence) FILTER (WHERE e.own AND NOT e.parked), '{}'),
                   coalesce(array_agg(e.key ORDER BY e.sequence) FILTER (WHERE e.own AND NOT e.parked), '{}'),
                   coalesce(array_agg(e.transaction_id ORDER BY e.sequence) FILTER (WHERE e.own AND NOT e.parked), '{}'),
                   coalesce(array_agg(e.actor_id ORDER BY e.sequence) FILTER (WHERE e.own AND NOT e.parked), '{}'),
                   coalesce(array_agg(e.event_id ORDER BY e.sequence) FILTER (WHERE e.own AND NOT e.parked), '{}'),
                   coalesce(array_agg(e.sequence ORDER BY e.sequence) FILTER (WHERE e.own AND e.parked), '{}')
              INTO seen, times, sequences, keys, transaction_ids, actors, event_ids, parks
              FROM (SELECT p.global_sequence AS sequence, p.recorded_at AS at, p.transaction_id, p.actor_id, p.event_id,
                           coalesce(p.key, p.stream_id, p.event_id::text) AS key,
                           coalesce(p.key, p.stream_id, p.event_id::text) = ANY (parked_keys) AS parked,
                           -- The rule of headwater.partition_of, without a function call per event.
                           (sub.partitions = 1
                            OR ('x' || left(md5(convert_to(coalesce(p.key, p.stream_id, p.event_id::text), 'UTF8')), 8))::bit(32)::bigint
                               % sub.partitions = sub.partition)
                           AND (look_ahead.event_types IS NULL
                            OR CASE WHEN likes IS NULL THEN p.event_type = ANY (look_ahead.event_types) ELSE p.event_type LIKE ANY (likes) END)
                           AND p.global_sequence <> ALL (poison)
                           AND (settled = '{}' OR NOT EXISTS (SELECT FROM unnest(settled, settled_ids) AS b(sequence, event_id)
                                                               WHERE b.sequence = p.global_sequence
                                                                 AND (b.event_id IS NULL OR b.event_id = p.event_id))) AS own
                      FROM headwater.log_page(ns.namespace_id, sub.position, sub.barrier, scan, NULL, NULL, NULL, bounds.from_at, bounds.until_at) p) e;
            is_full := cardinality(seen) >= scan;
            EXIT WHEN is_full OR bounds.until_at = 'infinity';
            -- A month may have been trimmed since it was counted.
            bounds.until_at := 'infinity';
        END LOOP;
        reach := coalesce(seen[cardinality(seen)], sub.position);
        IF NOT proved AND (reach - sub.position <> cardinality(seen) OR NOT is_full AND sub.barrier > reach) THEN
            proved := true;
            CONTINUE;
        END IF;
        is_end := NOT is_full AND sub.barrier IS NULL;
        IF NOT is_full THEN
            reach := greatest(reach, least(safe, sub.barrier));
        END IF;

        passed := '{}';
        IF proved THEN
            FOR gap IN SELECT greatest(g.before, safe) + 1 AS first, g.sequence - 1 AS last, g.at
                         FROM (SELECT q.sequence, q.at, lag(q.sequence, 1, sub.position) OVER (ORDER BY q.sequence) AS before
                                 FROM unnest(seen, times) AS q(sequence, at)) g
                        WHERE greatest(g.before, safe) + 1 < g.sequence
                        ORDER BY 1
            LOOP
                IF coalesce(gap.at + hold_for > clock_timestamp(), true)
                   OR cardinality(sub.pending_gaps) + cardinality(passed) >= 2 * most_ranges THEN
                    reach := gap.first - 1;
                    is_full := false;
                    is_end := false;
                    EXIT;
                END IF;
                passed := passed || ARRAY[gap.first, gap.last];
            END LOOP;
        END IF;
        IF sequences[wanted + 1] <= reach THEN
            reach := sequences[wanted + 1] - 1;
            is_full := true;
            is_end := false;
        END IF;
        passed := ARRAY(SELECT g FROM unnest(passed) g WHERE g <= reach ORDER BY g);

        ledger := sub.pending_gaps;
        late := 0;
        late_sum := 0;
        opened := ledger || passed;
        EXIT WHEN opened = '{}';
        SELECT coalesce(array_agg(e.sequence ORDER BY e.sequence), '{}') AS sequences,
               coalesce(array_agg(e.sequence ORDER BY e.sequence) FILTER (WHERE e.own AND NOT e.parked), '{}') AS own,
               coalesce(array_agg(e.key ORDER BY e.sequence) FILTER (WHERE e.own AND NOT e.parked), '{}') AS keys,
               coalesce(array_agg(e.transaction_id ORDER BY e.sequence) FILTER (WHERE e.own AND NOT e.parked), '{}') AS transaction_ids,
               coalesce(array_agg(e.actor_id ORDER BY e.sequence) FILTER (WHERE e.own AND NOT e.parked), '{}') AS actors,
               coalesce(array_agg(e.event_id ORDER BY e.sequence) FILTER (WHERE e.own AND NOT e.parked), '{}') AS event_ids,
               coalesce(array_agg(e.sequence ORDER BY e.sequence) FILTER (WHERE e.own AND e.parked), '{}') AS parks,
               coalesce(array_agg(e.sequence) FILTER (WHERE NOT e.own AND NOT e.poison AND e.sequence <= sub.position), '{}') AS others
          INTO came
          FROM (SELECT p.global_sequence AS sequence, p.transaction_id, p.actor_id, p.event_id, p.global_sequence = ANY (poison) AS poison,
                       coalesce(p.key, p.stream_id, p.event_id::text) AS key,
                       coalesce(p.key, p.stream_id, p.event_id::text) = ANY (parked_keys) AS parked,
                       (sub.partitions = 1
                        OR ('x' || left(md5(convert_to(coalesce(p.key, p.stream_id, p.event_id::text), 'UTF8')), 8))::bit(32)::bigint
                           % sub.partitions = sub.partition)
                       AND (look_ahead.event_types IS NULL
                            OR CASE WHEN likes IS NULL THEN p.event_type = ANY (look_ahead.event_types) ELSE p.event_type LIKE ANY (likes) END)
                       AND p.global_sequence <> ALL (poison)
                       AND (settled = '{}' OR NOT EXISTS (SELECT FROM unnest(settled, settled_ids) AS b(sequence, event_id)
                                                           WHERE b.sequence = p.global_sequence
                                                             AND (b.event_id IS NULL OR b.event_id = p.event_id))) AS own
                  FROM headwater_private.visible_in(ns.namespace_id, opened, most_late) p) e;
        count := cardinality(came.sequences);
        looked := CASE WHEN count = most_late THEN least(safe, came.sequences[count]) ELSE safe END;
        is_full := is_full OR count = most_late;
        IF whole AND count = most_late THEN
            PERFORM headwater_private.fail('WH017', format('more than %s events came late', most_late),
                jsonb_build_object('global_sequence', came.sequences[1], 'most', most_late, 'key', NULL),
                'ask with scope => ''batch'' or ''event'' until they are passed');
        END IF;
        -- A gap of this page was filled in the meantime: read the page again.
        SELECT min(s.sequence) INTO filled FROM unnest(came.sequences) AS s(sequence)
         WHERE s.sequence > sub.position AND s.sequence <> ALL (poison);
        CONTINUE WHEN filled IS NOT NULL AND try < most_tries;
        IF filled IS NOT NULL THEN
            reach := (SELECT max(passed[i]) - 1 FROM generate_series(1, cardinality(passed), 2) AS i WHERE passed[i] <= filled);
            passed := ARRAY(SELECT g FROM unnest(passed) g WHERE g <= reach ORDER BY g);
            is_end := false;
        END IF;
        ledger := headwater_private.ledger_without(
            headwater_private.ledger_after(sub.pending_gaps, looked,
                ARRAY(SELECT s.sequence FROM unnest(came.sequences) AS s(sequence) WHERE s.sequence <= sub.position AND s.sequence <> ALL (poison))),
            came.others);
        late := cardinality(came.others);
        late_sum := coalesce((SELECT sum(o) FROM unnest(came.others) o), 0);
        parks := parks || came.parks;
        IF came.own <> '{}' THEN
            -- Late events go first, and alone. The next page has what comes after them.
            sequences := CASE WHEN whole THEN came.own ELSE came.own[1:wanted] END;
            keys := came.keys;
            transaction_ids := came.transaction_ids;
            actors := came.actors;
            event_ids := came.event_ids;
            parks := came.parks;
            seen := '{}';
            passed := '{}';
            reach := sub.position;
            is_full := true;
            is_end := false;
        END IF;
        EXIT;
    END LOOP;
    seen := ARRAY(SELECT s.sequence FROM unnest(seen) AS s(sequence) WHERE s.sequence <= reach AND s.sequence <> ALL (poison) ORDER BY 1);
    parks := ARRAY(SELECT s.sequence FROM unnest(parks) AS s(sequence) WHERE s.sequence <= greatest(reach, sub.position) ORDER BY 1);
    -- The other lists are as long or longer. Nobody reads their elements beyond this.
    sequences := ARRAY(SELECT s.sequence FROM unnest(sequences) AS s(sequence) WHERE s.sequence <= greatest(reach, sub.position) ORDER BY 1);
END
$$;
