-- headwater.trim_month(namespace, month, allow_loss, at)
-- Public: in docs/sql.md.
-- Takes a month's events out of the log. From here on they are a `trimmed` gap, and the counts that
-- audits compare leave them out. The leaf goes later (headwater.drop_steps). Only the oldest
-- remaining month can be trimmed, only if it is older than the namespace keeps events, and only if
-- every subscriber has handled it. allow_loss => true drops this last condition: what a subscriber
-- had not handled is lost to it, and recorded in headwater_private.losses. The subscriber continues
-- behind the month, in a new term, and redriven letters of a queue are dead again. `month` is any
-- time in it; `at` is for tests.
-- Returns how many events the month had, and who lost some.
-- Raises: WH001, WH002 (not sealed, not the oldest, not old enough), WH032 (held). Locks: against
-- registration and resets; all subscribers of the namespace. Writes: the month, the namespace,
-- subscribers, losses, dead letters, permanent_gaps.
CREATE OR REPLACE FUNCTION headwater.trim_month(
    namespace text, month timestamptz, allow_loss boolean DEFAULT false, at timestamptz DEFAULT clock_timestamp(),
    OUT events bigint, OUT losers text[],
    caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns      headwater_private.namespaces;
    m       headwater_private.months;
    mistake text;
    holders jsonb;
    s       headwater_private.subscribers;
    number  bigint;
    total   numeric;
    touched boolean;
    ledger  bigint[];
BEGIN
    ns := headwater_private.open_namespace(trim_month.namespace, caller, 'owner');
    PERFORM headwater_private.check_time('at', trim_month.at);
    events := headwater.count_month(trim_month.namespace, trim_month.month);
    -- A session that moves a subscriber back holds this latch too, shared.
    PERFORM headwater_private.latch(ns.namespace_id, 'kept');
    ns := headwater_private.namespace_again(ns.namespace_id);
    SELECT x.* INTO m FROM headwater_private.months x
     WHERE x.namespace_id = ns.namespace_id AND x.starts_at <= trim_month.month AND x.ends_at > trim_month.month;
    losers := '{}';
    IF m.trimmed_at IS NOT NULL THEN
        RETURN;
    END IF;
    mistake := CASE
        WHEN ns.retention IS NULL THEN 'the namespace keeps its events for ever'
        WHEN headwater_private.kept_until(m.ends_at, ns.retention) > trim_month.at
        THEN format('it is kept until %s', to_char(headwater_private.kept_until(m.ends_at, ns.retention) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'))
        WHEN EXISTS (SELECT FROM headwater_private.months x
                      WHERE x.namespace_id = ns.namespace_id AND x.starts_at < m.starts_at AND x.trimmed_at IS NULL)
        THEN 'there are older ones' END;
    IF mistake IS NOT NULL THEN
        PERFORM headwater_private.fail('WH002', format('month %s cannot be trimmed: %s', to_char(m.starts_at AT TIME ZONE 'UTC', 'YYYY-MM'), mistake),
            jsonb_build_object('what', 'month', 'value', m.starts_at), 'see SELECT * FROM headwater.months(''namespace'')');
    END IF;
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, NULL);
    SELECT jsonb_agg(to_jsonb(h)) INTO holders FROM headwater_private.month_holders(trim_month.namespace, m.first_sequence, m.last_sequence) h;
    IF holders IS NOT NULL AND NOT coalesce(trim_month.allow_loss, false) THEN
        PERFORM headwater_private.fail('WH032',
            format('month %s is held by %s', to_char(m.starts_at AT TIME ZONE 'UTC', 'YYYY-MM'),
                   (SELECT string_agg(DISTINCT format('%L', h ->> 'subscriber_id'), ', ') FROM jsonb_array_elements(holders) h)),
            jsonb_build_object('month', m.starts_at, 'holders', holders),
            'let them catch up, remove those that nobody needs, or allow the loss');
    END IF;

    FOR s IN SELECT x.* FROM headwater_private.subscribers x WHERE x.namespace_id = ns.namespace_id ORDER BY x.subscriber_id, x.partition LOOP
        touched := EXISTS (SELECT FROM jsonb_array_elements(holders) h
                            WHERE h ->> 'subscriber_id' = s.subscriber_id AND (h ->> 'partition')::int = s.partition);
        IF touched THEN
            INSERT INTO headwater_private.losses (namespace_id, subscriber_id, partition, first_sequence, last_sequence, events)
            SELECT ns.namespace_id, s.subscriber_id, s.partition, l.first, l.last, l.events
              FROM headwater_private.unhandled_in(s, m.leaf) l WHERE l.events > 0
            ON CONFLICT DO NOTHING;
            IF FOUND THEN
                losers := losers || s.subscriber_id;
            END IF;
        END IF;
        CONTINUE WHEN s.mode = 'shared';
        ledger := headwater_private.ledger_of(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps);
        -- How much of what the subscriber settled, and audits compare, goes with the month.
        IF m.last_sequence IS NULL THEN
            -- The month has no events; its table may be gone.
            number := 0;
        ELSIF s.audit_base < m.first_sequence AND s.position >= m.last_sequence AND ledger = '{}' AND s.audit_ledger = '{}' THEN
            number := m.events;
            total := m.sequence_sum;
        ELSE
            EXECUTE format(
                'SELECT count(*), coalesce(sum(e.global_sequence), 0) FROM headwater_private.%I e
                  WHERE e.namespace_id = $5
                    AND (e.global_sequence > $1 AND e.global_sequence <= $2
                         OR $3 <> ''{}'' AND headwater_private.ledger_holds($3, ARRAY[e.global_sequence, e.global_sequence]))
                    AND ($4 = ''{}'' OR NOT headwater_private.ledger_holds($4, ARRAY[e.global_sequence, e.global_sequence]))', m.leaf)
               INTO number, total USING s.audit_base, s.position, s.audit_ledger, ledger, ns.namespace_id;
        END IF;
        UPDATE headwater_private.subscribers x
           SET settled_events = x.settled_events - number, settled_sum = x.settled_sum - total
         WHERE x.namespace_id = s.namespace_id AND x.subscriber_id = s.subscriber_id AND x.partition = s.partition AND number > 0;
        IF touched THEN
            UPDATE headwater_private.subscribers x
               SET position = greatest(x.position, m.complete_to),
                   pending_gaps = headwater_private.keep_ledger(x.namespace_id, x.subscriber_id, x.partition,
                       ARRAY(SELECT v.sequence FROM generate_series(1, cardinality(ledger), 2) AS i
                              CROSS JOIN LATERAL (VALUES (greatest(ledger[i], m.complete_to + 1)), (ledger[i + 1])) AS v(sequence)
                              WHERE ledger[i + 1] > m.complete_to ORDER BY i, v.sequence)),
                   term = nextval('headwater_private.terms'), owner_node = NULL, owner_incarnation = NULL, lease_until = NULL, lease = NULL,
                   locked = false, report = NULL, resize_to = NULL, barrier = NULL, updated_at = clock_timestamp()
             WHERE x.namespace_id = s.namespace_id AND x.subscriber_id = s.subscriber_id AND x.partition = s.partition;
            UPDATE headwater_private.subscribers x SET resize_to = NULL, barrier = NULL
             WHERE x.namespace_id = s.namespace_id AND x.subscriber_id = s.subscriber_id AND x.resize_to IS NOT NULL;
        END IF;
    END LOOP;

    IF holders IS NOT NULL THEN
        -- A queue can no longer deliver these events, but they are not lost: the letters keep them.
        UPDATE headwater_private.dead_letters d SET state = 'dead', queued = false, updated_at = clock_timestamp()
          FROM headwater_private.subscribers x
         WHERE d.namespace_id = ns.namespace_id AND d.state = 'redriving' AND d.global_sequence BETWEEN m.first_sequence AND m.last_sequence
           AND x.namespace_id = d.namespace_id AND x.subscriber_id = d.subscriber_id AND x.partition = 0 AND x.mode = 'shared';
    END IF;
    UPDATE headwater_private.months x SET trimmed_at = clock_timestamp() WHERE x.namespace_id = m.namespace_id AND x.starts_at = m.starts_at;
    UPDATE headwater_private.namespaces n SET kept_from = m.ends_at, trimmed_to = greatest(n.trimmed_to, m.complete_to)
     WHERE n.namespace_id = ns.namespace_id;
    IF m.complete_to > 0 THEN
        DELETE FROM headwater_private.permanent_gaps g WHERE g.namespace_id = ns.namespace_id AND g.last_sequence <= m.complete_to;
        UPDATE headwater_private.permanent_gaps g SET first_sequence = m.complete_to + 1
         WHERE g.namespace_id = ns.namespace_id AND g.first_sequence <= m.complete_to;
        -- Do not wait for a session that records a gap there at the same moment: a later month
        -- covers it too.
        INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
        VALUES (ns.namespace_id, 1, m.complete_to, 'trimmed') ON CONFLICT DO NOTHING;
    END IF;
END
$$;
