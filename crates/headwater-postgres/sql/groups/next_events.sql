-- headwater.next_events(namespace, subscriber_id, partition, term, max_events, scope, event_types,
-- hold_for)
-- Public: in docs/sql.md.
-- Returns the next events of a partition, for its owner: in order, each once, late ones included.
-- This call settles nothing except the events of other partitions. The last event of each bundle
-- has a cursor. After handling the bundle, settle it with headwater.settle, in the transaction of
-- its effects. No rows means that there is nothing to do now.
--   scope        which events share a transaction: see bundle_numbers
--   event_types  only these types, in which * stands for any characters (NULL: all); the others are
--                settled as they are passed
--   hold_for     how long events wait behind a gap whose transaction is open. After that they go
--                first, and what the transaction commits comes late (NULL: they wait until it ends)
-- Dead letters that are being redriven come first, each as a bundle of its own. Events that failed
-- wait for their next attempt, and what comes after them waits too. A paused subscriber gets
-- nothing.
-- Raises: WH001, WH002, WH006, WH011, WH012, WH013, WH015, WH017, 25006. Locks: nothing. Writes:
-- the subscriber, when it passes events of other partitions; see bundle_end.
CREATE OR REPLACE FUNCTION headwater.next_events(
    namespace text, subscriber_id text, partition int, term bigint, max_events int DEFAULT 100, scope text DEFAULT 'batch',
    event_types text[] DEFAULT NULL, hold_for interval DEFAULT '5 s', caller headwater.caller DEFAULT current_user
) RETURNS TABLE (cursor text, attempt int, global_sequence bigint, event_id uuid, event_type text, data jsonb, key text, stream_id text, stream_version bigint, actor_id text,
                 correlation_id uuid, causation_id uuid, headers jsonb, schema_version int, created_at timestamptz, recorded_at timestamptz, transaction_id bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(next_events.namespace, caller, 'consumer');
    sub     headwater_private.subscribers;
    history uuid;
    loaded  record;
    page    record;
    more    record;
    held    text[] := '{}';
    tries   int := 0;
    failing headwater_private.failing_events;
    bundles int[];
    keep    int;
    cursors text[];
    ranges  bigint[];
    -- The types as LIKE patterns, if one of them holds a *.
    likes   text[];
BEGIN
    PERFORM headwater_private.require_proof();
    PERFORM headwater_private.check_max_events(next_events.max_events);
    PERFORM headwater_private.check_patterns(next_events.event_types);
    IF next_events.event_types = '{}' THEN
        PERFORM headwater_private.fail('WH002', 'invalid event_types: the list is empty', jsonb_build_object('what', 'event_types', 'value', '{}'),
            'name the types to handle, or give NULL for all');
    END IF;
    IF position('*' IN array_to_string(next_events.event_types, '')) > 0 THEN
        likes := headwater_private.as_likes(next_events.event_types);
    END IF;
    IF coalesce(next_events.scope NOT IN ('batch', 'event', 'key', 'key_and_actor'), true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid scope %L', left(next_events.scope, 80)),
            jsonb_build_object('what', 'scope', 'value', left(next_events.scope, 80)), 'scope is batch, event, key or key_and_actor');
    END IF;
    IF next_events.hold_for IS NOT NULL THEN
        PERFORM headwater_private.check_interval('hold_for', next_events.hold_for, '0', '1000 years', 'hold_for is an interval from 0 to 1000 years, or NULL');
    END IF;
    history := headwater.begin_history();
    IF history IS NULL THEN
        RAISE read_only_sql_transaction USING MESSAGE = 'the server''s history has not begun, and cannot begin in a read-only transaction';
    END IF;
    SELECT '{}'::bigint[] AS more INTO more;
    LOOP
        sub := headwater_private.owned_partition(ns.namespace_id, next_events.subscriber_id, next_events.partition, next_events.term);
        IF sub.paused THEN
            RETURN;
        END IF;
        IF sub.letters_epoch <> sub.letters_checked THEN
            RETURN QUERY SELECT l.* FROM headwater_private.next_letters(ns.namespace_id, sub, history, next_events.max_events) l;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
        SELECT l.buried_sequences, l.buried_ids, l.parked_keys, array_position(l.buried_ids, NULL) IS NOT NULL AS noted INTO loaded
          FROM headwater.load_subscriber(ns.namespace_id, next_events.subscriber_id, next_events.partition) l;
        SELECT a.* INTO page
          FROM headwater_private.look_ahead(ns, sub, next_events.max_events, next_events.scope IN ('key', 'key_and_actor'), next_events.event_types, likes,
                                            next_events.hold_for, loaded.buried_sequences, loaded.buried_ids, loaded.parked_keys) a;
        IF page.sequences = '{}' THEN
            IF page.parks = '{}' AND page.reach = sub.position AND page.ledger = sub.pending_gaps THEN
                RETURN;
            END IF;
            cursors := headwater_private.bundle_cursors(sub, history, page.seen, page.reach, page.passed, page.ledger, page.late, page.late_sum, page.parks,
                                                        loaded.noted, '{}', '{}', '{}');
            PERFORM headwater.settle(next_events.namespace, next_events.subscriber_id, next_events.partition, next_events.term, cursors[1]);
            IF NOT page.is_full THEN
                RETURN;
            END IF;
            CONTINUE;
        END IF;
        EXIT WHEN next_events.scope IN ('batch', 'event') OR page.is_end;
        page.keys := page.keys[:cardinality(page.sequences)];
        page.transaction_ids := page.transaction_ids[:cardinality(page.sequences)];
        SELECT w.* INTO more
          FROM headwater_private.whole_bundles(ns, next_events.hold_for, next_events.event_types, likes, loaded.buried_sequences, loaded.buried_ids, page.reach,
                                               page.sequences, page.keys, page.transaction_ids) w;
        EXIT WHEN more.more = '{}';
        -- What these transactions and keys have in passed gaps belongs with them. The gaps were
        -- searched before these events were visible, so check them again.
        EXIT WHEN NOT headwater_private.any_visible(ns.namespace_id, page.ledger || page.passed, page.sequences || page.parks);
        tries := tries + 1;
        IF tries > 10 THEN
            RETURN;
        END IF;
    END LOOP;
    IF more.more <> '{}' THEN
        page.actors := page.actors[:cardinality(page.sequences)] || more.more_actors;
        page.event_ids := page.event_ids[:cardinality(page.sequences)] || more.more_event_ids;
        page.sequences := page.sequences || more.more;
        page.keys := page.keys || more.more_keys;
        page.transaction_ids := page.transaction_ids || more.more_transaction_ids;
        held := more.held;
    END IF;
    bundles := headwater_private.bundle_numbers(next_events.scope,
        (SELECT min(f.sequences[1]) FROM headwater_private.failing_events f
          WHERE f.namespace_id = ns.namespace_id AND f.subscriber_id = next_events.subscriber_id AND f.partition = next_events.partition
            AND f.term >= sub.began_in_term AND f.sequences[1] = ANY (page.sequences)),
        page.sequences, page.keys, page.transaction_ids, page.actors);
    -- Of the failures in the first bundle that failed, take the one whose next attempt is last.
    SELECT f.* INTO failing FROM headwater_private.failing_events f
     WHERE f.namespace_id = ns.namespace_id AND f.subscriber_id = next_events.subscriber_id AND f.partition = next_events.partition
       AND f.term >= sub.began_in_term AND f.sequences[1] = ANY (page.sequences)
     ORDER BY bundles[array_position(page.sequences, f.sequences[1])], f.retry_at DESC LIMIT 1;

    -- From the first bundle that failed or is not complete, the rest waits.
    keep := (SELECT min(b.bundle) - 1 FROM unnest(page.keys, bundles) AS b(key, bundle) WHERE b.bundle IS NOT NULL AND b.key = ANY (held));
    IF failing.sequences IS NOT NULL THEN
        keep := least(keep, bundles[array_position(page.sequences, failing.sequences[1])] - 1);
        IF keep = 0 AND failing.retry_at <= clock_timestamp() AND page.keys[1] <> ALL (held) THEN
            keep := 1;
        END IF;
    END IF;
    IF keep = 0 THEN
        RETURN;
    END IF;
    -- Each cursor carries the ledger twice. All cursors of a page together stay below about 2 MB.
    keep := least(keep, greatest(2000000 / (1 + 20 * cardinality(page.ledger)), 1));
    page.reach := least(page.reach, (SELECT min(b.sequence) - 1 FROM unnest(page.sequences, bundles) AS b(sequence, bundle)
                                      WHERE b.bundle > keep AND b.sequence > sub.position));
    SELECT array_agg(b.sequence ORDER BY b.bundle, b.sequence), array_agg(b.bundle ORDER BY b.bundle, b.sequence),
           array_agg(b.event_id ORDER BY b.bundle, b.sequence)
      INTO page.sequences, bundles, page.event_ids
      FROM unnest(page.sequences, bundles, page.event_ids) AS b(sequence, bundle, event_id)
     WHERE b.bundle <= coalesce(keep, b.bundle);
    page.seen := ARRAY(SELECT s.sequence FROM unnest(page.seen) AS s(sequence) WHERE s.sequence <= page.reach ORDER BY 1);
    page.passed := ARRAY(SELECT g FROM unnest(page.passed) g WHERE g <= page.reach ORDER BY g);
    cursors := headwater_private.bundle_cursors(sub, history, page.seen, page.reach, page.passed, page.ledger, page.late, page.late_sum, page.parks, loaded.noted,
                                                page.sequences, bundles, page.event_ids);

    -- Read them as one range, unless many events lie in between.
    SELECT CASE WHEN max(r.last) - min(r.first) < 1000 + 20 * cardinality(page.sequences) THEN ARRAY[min(r.first), max(r.last)]
                ELSE array_agg(v.sequence ORDER BY v.sequence) END INTO ranges
      FROM (SELECT min(q.sequence) AS first, max(q.sequence) AS last
              FROM (SELECT s.sequence, s.sequence - row_number() OVER (ORDER BY s.sequence) AS run FROM unnest(page.sequences) AS s(sequence)) q
             GROUP BY q.run) r
     CROSS JOIN LATERAL (VALUES (r.first), (r.last)) AS v(sequence);
    RETURN QUERY
    SELECT CASE WHEN b.bundle IS DISTINCT FROM b.next THEN cursors[b.bundle] END,
           CASE WHEN b.sequence = ANY (failing.sequences) THEN jsonb_array_length(failing.attempts) ELSE 0 END + 1,
           e.global_sequence, e.event_id, e.event_type, e.data, e.key, e.stream_id, e.stream_version, e.actor_id, e.correlation_id, e.causation_id, e.headers,
           e.schema_version, e.created_at, e.recorded_at, e.transaction_id
      FROM (SELECT q.sequence, q.bundle, q.place, lead(q.bundle) OVER (ORDER BY q.place) AS next
              FROM unnest(page.sequences, bundles) WITH ORDINALITY AS q(sequence, bundle, place)) b
      JOIN headwater_private.visible_in(ns.namespace_id, ranges, 2147483647) e ON e.global_sequence = b.sequence
     ORDER BY b.place;
END
$$;
