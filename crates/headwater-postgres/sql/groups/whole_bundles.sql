-- headwater_private.whole_bundles(ns, hold_for, event_types, likes, settled, settled_ids, reach,
-- sequences, keys, transaction_ids)
-- Returns what belongs together with some events of a partition and lies behind `reach`: events
-- that the same transactions appended for the same keys, and what other transactions appended for
-- these keys in between, with their own bundles.
--   more, more_keys, …   these events, in order
--   held                 keys with events that lie behind a held gap: they wait with it
-- Raises: WH001, WH006, WH017 if there are more than a page may have. Locks: nothing. Writes: see
-- bundle_end.
CREATE OR REPLACE FUNCTION headwater_private.whole_bundles(
    ns headwater_private.namespaces, hold_for interval, event_types text[], likes text[], settled bigint[], settled_ids uuid[], reach bigint,
    sequences bigint[], keys text[], transaction_ids bigint[],
    OUT more bigint[], OUT more_keys text[], OUT more_transaction_ids bigint[], OUT more_actors text[], OUT more_event_ids uuid[], OUT held text[]
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    look        constant int := 2000;
    most_events constant int := 100000;
    own_keys    text[];
    safe        bigint;
    bounds      record;
    ahead       record;
    up_to       bigint;
    goal        bigint;
    before      int;
    gap         bigint;
BEGIN
    LOOP
        more := '{}';
        held := '{}';
        goal := NULL;
        own_keys := ARRAY(SELECT DISTINCT k FROM unnest(keys) k);
        LOOP
            SELECT l.* INTO bounds FROM headwater_private.log_bounds(ns.namespace_id, reach, goal, CASE WHEN goal IS NULL THEN look END) l;
            LOOP
                SELECT count(*) AS events, max(e.sequence) AS last,
                       coalesce(array_agg(e.sequence ORDER BY e.sequence) FILTER (WHERE e.own), '{}') AS sequences,
                       coalesce(array_agg(e.key ORDER BY e.sequence) FILTER (WHERE e.own), '{}') AS keys,
                       coalesce(array_agg(e.transaction_id ORDER BY e.sequence) FILTER (WHERE e.own), '{}') AS transaction_ids,
                       coalesce(array_agg(e.actor_id ORDER BY e.sequence) FILTER (WHERE e.own), '{}') AS actors,
                       coalesce(array_agg(e.event_id ORDER BY e.sequence) FILTER (WHERE e.own), '{}') AS event_ids
                  INTO ahead
                  FROM (SELECT p.global_sequence AS sequence, coalesce(p.key, p.stream_id) AS key, p.transaction_id, p.actor_id, p.event_id,
                               coalesce(p.key, p.stream_id) = ANY (own_keys)
                               AND (whole_bundles.event_types IS NULL
                                    OR CASE WHEN likes IS NULL THEN p.event_type = ANY (whole_bundles.event_types) ELSE p.event_type LIKE ANY (likes) END)
                               AND NOT EXISTS (SELECT FROM headwater_private.poison_events o
                                                WHERE o.namespace_id = ns.namespace_id AND o.global_sequence = p.global_sequence AND NOT o.redelivered)
                               AND (settled = '{}' OR NOT EXISTS (SELECT FROM unnest(settled, settled_ids) AS b(sequence, event_id)
                                                                   WHERE b.sequence = p.global_sequence
                                                                     AND (b.event_id IS NULL OR b.event_id = p.event_id))) AS own
                          FROM headwater.log_page(ns.namespace_id, reach, goal, CASE WHEN goal IS NULL THEN look END, NULL, NULL, NULL,
                                                  bounds.from_at, bounds.until_at) p) e;
                EXIT WHEN bounds.until_at = 'infinity' OR goal IS NULL AND ahead.events >= look OR goal IS NOT NULL;
                bounds.until_at := 'infinity';
            END LOOP;
            up_to := CASE WHEN goal IS NOT NULL THEN goal WHEN ahead.events >= look THEN ahead.last ELSE 9223372036854775807 END;

            -- Repeat until no bundle continues.
            LOOP
                before := cardinality(more);
                SELECT coalesce(array_agg(a.sequence ORDER BY a.sequence), '{}'), coalesce(array_agg(a.key ORDER BY a.sequence), '{}'),
                       coalesce(array_agg(a.transaction_id ORDER BY a.sequence), '{}'), coalesce(array_agg(a.actor_id ORDER BY a.sequence), '{}'),
                       coalesce(array_agg(a.event_id ORDER BY a.sequence), '{}')
                  INTO more, more_keys, more_transaction_ids, more_actors, more_event_ids
                  FROM unnest(ahead.sequences, ahead.keys, ahead.transaction_ids, ahead.actors, ahead.event_ids)
                       AS a(sequence, key, transaction_id, actor_id, event_id)
                  JOIN (SELECT o.key, max(o.sequence) AS last
                          FROM unnest(ahead.sequences, ahead.keys, ahead.transaction_ids) AS o(sequence, key, transaction_id)
                         WHERE EXISTS (SELECT FROM unnest(keys || more_keys, transaction_ids || more_transaction_ids) AS b(key, transaction_id)
                                        WHERE b.key = o.key AND b.transaction_id = o.transaction_id)
                         GROUP BY o.key) ends ON ends.key = a.key AND a.sequence <= ends.last;
                EXIT WHEN cardinality(more) = before;
            END LOOP;
            IF cardinality(more) > most_events THEN
                PERFORM headwater_private.fail('WH017', format('the events that belong together with event %s are more than %s', sequences[1], most_events),
                    jsonb_build_object('global_sequence', sequences[1], 'most', most_events, 'key', left(more_keys[1], 255)),
                    'ask with scope => ''batch'' or ''event'' until they are passed, or append less in one transaction for one key');
            END IF;
            EXIT WHEN up_to = 9223372036854775807;
            goal := headwater_private.bundle_end(ns, sequences || more, keys || more_keys, transaction_ids || more_transaction_ids);
            EXIT WHEN goal <= up_to;
        END LOOP;
        IF more = '{}' OR more[cardinality(more)] <= safe THEN
            RETURN;
        END IF;
        IF safe IS NOT NULL THEN
            EXIT;
        END IF;
        -- These events were found without a proof that nothing lies between them.
        SELECT h.horizon INTO safe FROM headwater_private.horizon_of(ns.namespace_id) h;
    END LOOP;
    SELECT l.* INTO bounds FROM headwater_private.log_bounds(ns.namespace_id, greatest(reach, safe), more[cardinality(more)], NULL) l;
    SELECT min(g.before) + 1 INTO gap
      FROM (SELECT p.global_sequence AS sequence, p.recorded_at AS at,
                   lag(p.global_sequence, 1, greatest(reach, safe)) OVER (ORDER BY p.global_sequence) AS before
              FROM headwater.log_page(ns.namespace_id, greatest(reach, safe), more[cardinality(more)], NULL, NULL, NULL, NULL,
                                      bounds.from_at, bounds.until_at) p) g
     WHERE g.before + 1 < g.sequence AND coalesce(g.at + hold_for > clock_timestamp(), true);
    held := ARRAY(SELECT DISTINCT m.key FROM unnest(more, more_keys) AS m(sequence, key) WHERE m.sequence > gap);
END
$$;
