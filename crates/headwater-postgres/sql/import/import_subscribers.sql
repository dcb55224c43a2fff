-- headwater.import_subscribers(namespace_id, name, subscriber_ids, checkpoints)
-- Creates subscribers that continue where those of another event bus stopped. Each checkpoint is a
-- sequence of the source, which imported events have in their header `source_sequence`. A
-- subscriber stands just before the first event that its checkpoint does not cover: an event with a
-- higher source sequence, or an event that was not imported. An event that came in after one with a
-- higher source sequence was written by a transaction that stayed open: the old bus may have passed
-- it. It goes into the subscriber's ledger, and is delivered late. An existing subscriber stays
-- unchanged. This reads the part of the log that was imported.
--   late   how many events are in its ledger
-- Raises: WH001, WH002, WH006, WH015. Locks: against trimming. Writes: subscribers, and their
-- ledgers.
CREATE OR REPLACE FUNCTION headwater.import_subscribers(
    namespace_id int, name text, subscriber_ids text[], checkpoints bigint[], caller headwater.caller DEFAULT current_user
) RETURNS TABLE (subscriber_id text, "position" bigint, late bigint, is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    bounds bigint[] := ARRAY(SELECT DISTINCT coalesce(c.checkpoint, 0) FROM unnest(checkpoints) AS c(checkpoint) ORDER BY 1);
    ns     headwater_private.namespaces;
    source headwater_private.imports;
    -- For each bound, the first place that it does not cover.
    firsts bigint[];
    lates  bigint[];
    ledger bigint[];
    one    record;
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = $1;
    SELECT i.* INTO source FROM headwater_private.imports i WHERE i.namespace_id = $1 AND i.name = $2;
    -- Other events may have any header, so a header that is not a number counts as not covered.
    WITH places AS (
        SELECT e.place, e.sequence, e.sequence IS NOT NULL
               AND e.sequence < max(e.sequence) OVER (ORDER BY e.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS late
          FROM (SELECT m.first_sequence AS place, m.last_sequence AS sequence
                  FROM headwater_private.by_month(
                           NULL::headwater_private.span,
                           'SELECT NULL::text, NULL::bigint, e.global_sequence,
                                   CASE WHEN e.headers ->> ''import'' = $8 AND e.headers ->> ''source_sequence'' ~ ''^-?[0-9]{1,18}$''
                                        THEN (e.headers ->> ''source_sequence'')::bigint END
                              FROM %s e WHERE %s AND e.namespace_id = $1 AND e.global_sequence BETWEEN $2 AND $3',
                           $1, coalesce(source.first_sequence, 0), coalesce(source.last_sequence, 0), stream => $2) m) e
    ), groups AS (
        SELECT coalesce(width_bucket(p.sequence - 1, bounds), cardinality(bounds)) AS above, min(p.place) AS first FROM places p GROUP BY 1
    )
    SELECT ARRAY(SELECT (SELECT min(g.first) FROM groups g WHERE g.above >= b.nth) FROM generate_series(1, cardinality(bounds)) AS b(nth) ORDER BY b.nth),
           ARRAY(SELECT p.place FROM places p WHERE p.late ORDER BY p.place)
      INTO firsts, lates;
    FOR one IN SELECT s.id, coalesce(firsts[array_position(bounds, coalesce(s.checkpoint, 0))] - 1, source.last_sequence, 0) AS place
                 FROM unnest(subscriber_ids, checkpoints) AS s(id, checkpoint) LOOP
        IF EXISTS (SELECT FROM headwater_private.subscribers s WHERE s.namespace_id = $1 AND s.subscriber_id = one.id) THEN
            is_new := false;
        ELSE
            is_new := headwater.register_subscriber(ns.namespace, one.id, 'after', one.place);
        END IF;
        IF is_new THEN
            ledger := ARRAY(SELECT l.place FROM unnest(lates || lates) AS l(place) WHERE l.place <= one.place ORDER BY 1);
            IF ledger <> '{}' THEN
                ledger := headwater_private.ledger_at(ns.namespace, one.place, ledger);
                UPDATE headwater_private.subscribers s
                   SET pending_gaps = headwater_private.keep_ledger(s.namespace_id, s.subscriber_id, s.partition, ledger), audit_ledger = ledger
                 WHERE s.namespace_id = $1 AND s.subscriber_id = one.id;
            END IF;
        END IF;
        RETURN QUERY SELECT one.id, s.position, CASE WHEN is_new THEN (SELECT count(*) FROM unnest(lates) AS l(place) WHERE l.place <= one.place) ELSE 0 END, is_new
                       FROM headwater_private.subscribers s WHERE s.namespace_id = $1 AND s.subscriber_id = one.id AND s.partition = 0;
    END LOOP;
END
$$;
