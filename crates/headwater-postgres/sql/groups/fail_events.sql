-- headwater.fail_events(namespace, subscriber_id, partition, term, sequences, error, max_attempts,
-- delay, permanent, on_exhaustion)
-- Public: in docs/sql.md.
-- Records that events of a partition failed: one event, or all events of a bundle, which failed
-- together. Call it after the transaction that tried them was rolled back. They are tried again
-- after a pause, by this server's clock, and what comes after them waits. After max_attempts, or if
-- the failure is permanent, on_exhaustion decides:
--   dead_letter  the events become dead letters, and the partition goes on
--   park_key     the same, and later events of their key wait behind them
--   pause        the partition is paused, with the events still ahead of it
-- A dead letter that was delivered again and failed is dead again.
--   delay     the pause (NULL: 1 s after the first attempt, then twice as long each time, up to 1
--             minute)
--   outcome   retry, dead or paused
-- Raises: WH001, WH002, WH011, WH012, WH013, WH015, WH016. Locks: the partition's row. Writes: the
-- failure, dead letters, the subscriber.
CREATE OR REPLACE FUNCTION headwater.fail_events(
    namespace text, subscriber_id text, partition int, term bigint, sequences bigint[], error text DEFAULT NULL, max_attempts int DEFAULT 4,
    delay interval DEFAULT NULL, permanent boolean DEFAULT false, on_exhaustion text DEFAULT 'dead_letter',
    OUT outcome text, OUT attempts int, OUT retry_in interval, caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(fail_events.namespace, caller, 'consumer');
    reason text := left(coalesce(fail_events.error, 'failed without a reason'), 10000);
    sub    headwater_private.subscribers;
    before headwater_private.failing_events;
    tried  jsonb;
    first  uuid;
    settled bigint;
    letter record;
    wrong  bigint;
BEGIN
    IF coalesce(cardinality(sequences), 0) NOT BETWEEN 1 AND 1000000 THEN
        PERFORM headwater_private.fail('WH002', 'invalid sequences', jsonb_build_object('what', 'sequences', 'value', cardinality(sequences)),
            'give the global_sequence of each event that failed');
    END IF;
    PERFORM headwater_private.check_sequences(ns.namespace_id, fail_events.sequences, false);
    IF coalesce(max_attempts NOT BETWEEN 1 AND 1000, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid max_attempts %s', coalesce(max_attempts::text, 'NULL')),
            jsonb_build_object('what', 'max_attempts', 'value', max_attempts), 'max_attempts is 1 to 1000');
    END IF;
    IF fail_events.delay IS NOT NULL THEN
        PERFORM headwater_private.check_interval('delay', fail_events.delay, '0', '1000 years', 'delay is an interval from 0 to 1000 years, or NULL');
    END IF;
    IF coalesce(on_exhaustion NOT IN ('dead_letter', 'park_key', 'pause'), true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid on_exhaustion %L', left(on_exhaustion, 80)),
            jsonb_build_object('what', 'on_exhaustion', 'value', left(on_exhaustion, 80)), 'on_exhaustion is dead_letter, park_key or pause');
    END IF;
    -- Lock the row, so that no other owner comes in between.
    PERFORM FROM headwater_private.subscribers s
      WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = fail_events.subscriber_id AND s.partition = fail_events.partition
        FOR NO KEY UPDATE;
    sub := headwater_private.owned_partition(ns.namespace_id, fail_events.subscriber_id, fail_events.partition, fail_events.term);
    tried := jsonb_build_array(jsonb_build_object('at', clock_timestamp(), 'node', coalesce(sub.owner_node, ''), 'errors', jsonb_build_array(reason)));

    IF sub.partitions > 1 THEN
        SELECT min(p.global_sequence) INTO wrong
          FROM (SELECT v.global_sequence, coalesce(v.key, v.stream_id, v.event_id::text) AS key
                  FROM headwater_private.visible_in(ns.namespace_id, ARRAY(SELECT q FROM unnest(sequences || sequences) q ORDER BY q), cardinality(sequences)) v
                 UNION ALL
                -- The log may no longer have the event of a letter.
                SELECT d.global_sequence, d.order_key FROM headwater_private.dead_letters d
                 WHERE d.namespace_id = ns.namespace_id AND d.subscriber_id = fail_events.subscriber_id AND d.global_sequence = ANY (sequences)
                   AND d.state IN ('redriving', 'parked')) p
         WHERE headwater.partition_of(p.key, sub.partitions) <> sub.partition;
        IF wrong IS NOT NULL THEN
            PERFORM headwater_private.fail('WH002', format('event %s is not of partition %s', wrong, fail_events.partition),
                jsonb_build_object('what', 'sequences', 'value', wrong), 'give events that next_events answered for this partition');
        END IF;
    END IF;
    SELECT d.global_sequence, jsonb_array_length(d.attempts) + 1 AS attempts INTO letter FROM headwater_private.dead_letters d
     WHERE d.namespace_id = ns.namespace_id AND d.subscriber_id = fail_events.subscriber_id AND d.global_sequence = fail_events.sequences[1]
       AND d.state IN ('redriving', 'parked') LIMIT 1;
    IF FOUND THEN
        IF cardinality(sequences) > 1 THEN
            PERFORM headwater_private.fail('WH002', format('event %s is a dead letter that was delivered again: it fails alone', letter.global_sequence),
                jsonb_build_object('what', 'sequences', 'value', letter.global_sequence), 'name it alone, as next_events answered it');
        END IF;
        PERFORM headwater.redriven(ns.namespace_id, fail_events.subscriber_id, fail_events.term, letter.global_sequence, (tried -> 0)::text, reason,
                                   coalesce(sub.owner_node, ''), fail_events.partition);
        outcome := 'dead';
        attempts := letter.attempts;
        RETURN;
    END IF;

    SELECT p.event_id INTO first FROM headwater_private.visible_in(ns.namespace_id, ARRAY[sequences[1], sequences[1]], 1) p;
    -- Each of these events is ahead of the position or in the ledger, and was not settled ahead.
    SELECT min(q.sequence) INTO settled
      FROM unnest(sequences) AS q(sequence)
     WHERE first IS NULL
        OR q.sequence <= sub.position AND NOT headwater_private.ledger_holds(sub.pending_gaps, ARRAY[q.sequence, q.sequence])
        OR q.sequence > sub.position AND EXISTS (
               SELECT FROM headwater_private.settled_ahead a
                WHERE a.namespace_id = ns.namespace_id AND a.subscriber_id = fail_events.subscriber_id
                  AND a.partition = fail_events.partition AND q.sequence = ANY (a.sequences));
    IF settled IS NOT NULL THEN
        PERFORM headwater_private.partition_lost(fail_events.subscriber_id, fail_events.partition, fail_events.term,
            format('event %s is not ahead of it: it was settled before', settled));
    END IF;
    SELECT f.* INTO before FROM headwater_private.failing_events f
     WHERE f.namespace_id = ns.namespace_id AND f.subscriber_id = fail_events.subscriber_id AND f.partition = fail_events.partition
       AND f.first_event = first AND f.term >= sub.began_in_term;
    tried := coalesce(before.attempts, '[]') || tried;
    attempts := jsonb_array_length(tried);
    outcome := CASE WHEN attempts < max_attempts AND NOT coalesce(permanent, false) THEN 'retry'
                    WHEN on_exhaustion = 'pause' THEN 'paused' ELSE 'dead' END;
    IF outcome = 'dead' THEN
        PERFORM headwater_private.bury_events(ns.namespace_id, fail_events.subscriber_id, fail_events.partition, fail_events.term, fail_events.sequences, 'dead',
                                              on_exhaustion = 'park_key', tried);
        DELETE FROM headwater_private.failing_events f
         WHERE f.namespace_id = ns.namespace_id AND f.subscriber_id = fail_events.subscriber_id AND f.partition = fail_events.partition AND f.first_event = first;
        RETURN;
    END IF;
    IF outcome = 'paused' THEN
        PERFORM headwater.pause_self(ns.namespace_id, fail_events.subscriber_id, fail_events.term,
            format('event %s failed %s times: %s', sequences[1], attempts, reason), fail_events.partition);
        -- When somebody resumes the partition, the attempts start from zero.
        DELETE FROM headwater_private.failing_events f
         WHERE f.namespace_id = ns.namespace_id AND f.subscriber_id = fail_events.subscriber_id AND f.partition = fail_events.partition AND f.first_event = first;
        RETURN;
    END IF;
    -- Delete the failures of events that other owners have settled: those owners do not look here.
    DELETE FROM headwater_private.failing_events f
     WHERE f.namespace_id = ns.namespace_id AND f.subscriber_id = fail_events.subscriber_id AND f.partition = fail_events.partition
       AND (f.term < sub.began_in_term
            OR f.sequences[1] <= sub.position AND NOT headwater_private.ledger_holds(sub.pending_gaps, ARRAY[f.sequences[1], f.sequences[1]]));
    retry_in := coalesce(fail_events.delay, least(interval '1 s' * (2 ^ least(attempts - 1, 6)), interval '1 minute'));
    INSERT INTO headwater_private.failing_events AS f (namespace_id, partition, term, retry_at, subscriber_id, sequences, first_event, attempts)
    VALUES (ns.namespace_id, fail_events.partition, fail_events.term, clock_timestamp() + retry_in, fail_events.subscriber_id, fail_events.sequences, first, tried)
    ON CONFLICT (namespace_id, subscriber_id, partition, first_event) DO UPDATE
       SET term = excluded.term, retry_at = excluded.retry_at, sequences = excluded.sequences, attempts = excluded.attempts;
END
$$;
