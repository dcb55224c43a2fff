-- headwater.register_subscriber(namespace, subscriber_id, start_from, start_position, start_time,
-- mode, partitions, event_types)
-- Public: in docs/sql.md.
-- Creates a subscriber, if it does not exist. An existing subscriber stays unchanged, wherever it
-- stands, but must have this mode.
--   start_from   'beginning' (default), 'now': what is stored from now on (events in flight
--                included), 'after': start_position, 'time': the first event recorded at or after
--                start_time
--   mode         'exclusive' (default): one instance at a time handles its events; 'partitioned':
--                its instances share the partitions, and a key is always in the same one; 'shared':
--                its events are claimed
--   partitions   of a partitioned subscriber, 1 (default) to 1024. An existing subscriber keeps its
--                number: headwater.resize_group changes it.
--   event_types  what a shared subscriber takes, as patterns: * stands for any characters. NULL:
--                all types, or no change if the subscriber exists. An existing subscriber takes
--                these types too from now on. Events of other types are settled:
--                headwater.set_event_types says more.
-- If start_position lies above the horizon, what is not visible yet at or below it goes into the
-- ledger: it is delivered when it comes. A subscriber cannot start with trimmed events: it begins
-- with the first event that is kept, and a NOTICE says so.
-- Returns whether it was created.
-- Raises: WH001, WH002, WH006, WH013 if it has another mode. Locks: against trimming; the queue of
-- an existing subscriber that takes more types from now on. Writes: the subscriber, one row per
-- partition, and its ledger.
CREATE OR REPLACE FUNCTION headwater.register_subscriber(
    namespace      text,
    subscriber_id  text,
    start_from     text DEFAULT 'beginning',
    start_position bigint DEFAULT NULL,
    start_time     timestamptz DEFAULT NULL,
    mode           text DEFAULT 'exclusive',
    partitions     int DEFAULT 1,
    event_types    text[] DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns         headwater_private.namespaces := headwater_private.open_namespace(register_subscriber.namespace, caller, 'consumer');
    start      bigint;
    ledger     bigint[] := '{}';
    first_term bigint;
    there      text;
    made       bigint;
    takes      text[] := headwater_private.checked_types(register_subscriber.event_types);
BEGIN
    PERFORM headwater_private.check_name('subscriber_id', register_subscriber.subscriber_id, 255);
    IF coalesce(register_subscriber.mode NOT IN ('exclusive', 'partitioned', 'shared'), true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid mode %L', left(register_subscriber.mode, 80)),
            jsonb_build_object('what', 'mode', 'value', left(register_subscriber.mode, 80)),
            'mode is exclusive, partitioned or shared');
    END IF;
    IF coalesce(register_subscriber.partitions NOT BETWEEN 1 AND 1024
                OR (register_subscriber.mode <> 'partitioned' AND register_subscriber.partitions <> 1), true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid partitions %s', coalesce(register_subscriber.partitions::text, 'NULL')),
            jsonb_build_object('what', 'partitions', 'value', register_subscriber.partitions),
            'a partitioned subscriber has 1 to 1024 partitions, any other has 1');
    END IF;
    IF register_subscriber.event_types IS NOT NULL AND register_subscriber.mode <> 'shared' THEN
        PERFORM headwater_private.fail('WH002', format('invalid event_types of a subscriber that is %s', register_subscriber.mode),
            jsonb_build_object('what', 'event_types', 'value', register_subscriber.event_types),
            'only of a shared subscriber the database knows what it takes; any other passes what it does not handle by itself');
    END IF;
    SELECT s.mode INTO there FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = register_subscriber.subscriber_id AND s.partition = 0;
    IF FOUND THEN
        IF there <> register_subscriber.mode THEN
            PERFORM headwater_private.fail('WH013',
                format('subscriber %L is %s, not %s', register_subscriber.subscriber_id, there, register_subscriber.mode),
                jsonb_build_object('subscriber_id', register_subscriber.subscriber_id, 'mode', there),
                'use it as what it is, choose another subscriber_id, or remove it first');
        END IF;
        IF register_subscriber.event_types IS NOT NULL THEN
            PERFORM headwater_private.widen_types(ns.namespace_id, register_subscriber.subscriber_id, takes);
        END IF;
        RETURN false;
    END IF;
    start := CASE start_from WHEN 'beginning' THEN 0
                             WHEN 'now' THEN (SELECT h.horizon FROM headwater_private.horizon_of(ns.namespace_id) h)
                             WHEN 'after' THEN start_position
                             WHEN 'time' THEN headwater.position_at(register_subscriber.namespace, start_time) END;
    IF start IS NULL OR start < 0 OR (start_from = 'time' AND start_time IS NULL) THEN
        PERFORM headwater_private.fail('WH002', format('invalid start_from %L', left(start_from, 80)),
            jsonb_build_object('what', 'start_from', 'value', left(start_from, 80)),
            'start_from is beginning, now, after (with a start_position from 0) or time (with a start_time)');
    END IF;
    start := headwater_private.kept_position(ns.namespace_id, start);
    IF start_from = 'after' THEN
        ledger := headwater_private.ledger_at(register_subscriber.namespace, start);
    END IF;
    first_term := nextval('headwater_private.terms');
    -- A second session that creates the same subscriber waits for the first row, and creates none
    -- of the others.
    INSERT INTO headwater_private.subscribers (namespace_id, subscriber_id, partition, mode, partitions, position, pending_gaps, term,
                                       began_in_term, audit_base, audit_ledger, event_types)
    VALUES (ns.namespace_id, register_subscriber.subscriber_id, 0, register_subscriber.mode, register_subscriber.partitions, start,
            CASE WHEN register_subscriber.mode = 'shared' THEN ledger ELSE '{}' END, first_term, first_term, start, ledger, takes)
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF made > 0 AND register_subscriber.mode = 'shared' THEN
        -- Claims lock this row. It exists before the first claim, so that other sessions see who
        -- has locked it.
        INSERT INTO headwater_private.queues (namespace_id, subscriber_id) VALUES (ns.namespace_id, register_subscriber.subscriber_id)
        ON CONFLICT DO NOTHING;
    ELSIF made > 0 THEN
        UPDATE headwater_private.subscribers s
           SET pending_gaps = headwater_private.keep_ledger(s.namespace_id, s.subscriber_id, 0, ledger)
         WHERE ledger <> '{}' AND s.namespace_id = ns.namespace_id AND s.subscriber_id = register_subscriber.subscriber_id;
        INSERT INTO headwater_private.subscribers (namespace_id, subscriber_id, partition, mode, partitions, position, pending_gaps, term,
                                           began_in_term, audit_base, audit_ledger)
        SELECT s.namespace_id, s.subscriber_id, p.partition, s.mode, s.partitions, s.position,
               CASE WHEN ledger = '{}' THEN '{}' ELSE headwater_private.keep_ledger(s.namespace_id, s.subscriber_id, p.partition, ledger) END,
               s.term, s.began_in_term, s.audit_base, s.audit_ledger
          FROM headwater_private.subscribers s, generate_series(1, s.partitions - 1) AS p(partition)
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = register_subscriber.subscriber_id AND s.partition = 0;
    END IF;
    IF made = 0 AND register_subscriber.event_types IS NOT NULL THEN
        -- Another call made it at the same time.
        PERFORM headwater_private.widen_types(ns.namespace_id, register_subscriber.subscriber_id, takes);
    END IF;
    RETURN made > 0;
END
$$;
