-- headwater.audit_subscribers(namespace, subscriber_ids)
-- Public: in docs/sql.md.
-- Compares what subscribers (NULL: all) settled since counting began with what the log holds there,
-- without what their ledgers still hold: the number of events, and the sum of their sequences. Both
-- come from one snapshot. Trimmed events count in neither. This reads every event of the range:
-- hours of the log take seconds, years take longer.
-- The comparison covers what lies after the base, and of what lies before it the ledger as it was
-- when counting began, because late events from there were counted too. Poison is no event. An
-- event that somebody deleted from the log still counts while the subscriber has its dead letter,
-- which keeps the event.
--   sums_differ_by   the log's sum minus the settled sum
--   missing          the event that was not settled, if it is a single one
-- Raises: WH001, WH012. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.audit_subscribers(namespace text, subscriber_ids text[] DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (subscriber_id text, after_sequence bigint, "position" bigint, in_log bigint, settled bigint, sums_differ_by numeric,
               missing bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(audit_subscribers.namespace, caller, 'consumer');
    unknown text;
    poison  bigint[] := ARRAY(SELECT p.global_sequence FROM headwater_private.poison_events p
                               WHERE p.namespace_id = ns.namespace_id AND NOT p.redelivered);
BEGIN
    SELECT a.id INTO unknown FROM unnest(subscriber_ids) a(id)
     WHERE NOT EXISTS (SELECT FROM headwater_private.subscribers s WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = a.id) LIMIT 1;
    IF FOUND THEN
        PERFORM headwater_private.fail('WH012', format('subscriber %L does not exist', left(unknown, 80)),
            jsonb_build_object('subscriber_id', left(unknown, 255)),
            'see which there are: SELECT * FROM headwater.subscriber_status(''namespace'')');
    END IF;
    RETURN QUERY
    SELECT c.subscriber_id, c.audit_base, c.position, c.in_log, c.settled, c.sums_differ_by,
           CASE WHEN c.in_log <> c.settled + 1 OR c.sums_differ_by NOT BETWEEN 1 AND c.position THEN NULL
                WHEN c.sums_differ_by > c.audit_base
                  OR headwater_private.ledger_holds(c.audit_ledger, ARRAY[c.sums_differ_by, c.sums_differ_by]::bigint[])
                THEN c.sums_differ_by::bigint END
      FROM (
        SELECT s.subscriber_id, s.partition, s.audit_base, s.audit_ledger, s.position,
               (after_base.events + before_base.events + kept.events - held.events)::bigint AS in_log, s.settled_events + s.late_events AS settled,
               after_base.sum + before_base.sum + kept.sum - held.sum - s.settled_sum - s.late_sum AS sums_differ_by
          FROM headwater_private.subscribers s
          CROSS JOIN LATERAL (SELECT headwater_private.ledger_of(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps) AS ranges OFFSET 0) l
          CROSS JOIN LATERAL headwater_private.count_events(ns.namespace_id, ARRAY[s.audit_base + 1, s.position], poison) after_base
          CROSS JOIN LATERAL headwater_private.count_events(ns.namespace_id, s.audit_ledger, poison) before_base
          CROSS JOIN LATERAL (
                SELECT count(*) AS events, coalesce(sum(d.global_sequence), 0) AS sum FROM headwater_private.dead_letters d
                 WHERE d.namespace_id = ns.namespace_id AND d.subscriber_id = s.subscriber_id AND d.global_sequence <= s.position
                   AND d.global_sequence > greatest(s.audit_base, ns.trimmed_to) AND d.global_sequence <> ALL (poison)
                   AND NOT EXISTS (SELECT FROM headwater_private.events_at(ns.namespace_id, ARRAY[d.global_sequence]))
                   AND NOT headwater_private.ledger_holds(l.ranges, ARRAY[d.global_sequence, d.global_sequence])) kept
          -- A ledger may reach beyond the position.
          CROSS JOIN LATERAL headwater_private.count_events(ns.namespace_id, ARRAY(
                SELECT v.sequence FROM generate_series(1, cardinality(l.ranges), 2) AS i
                 CROSS JOIN LATERAL (VALUES (l.ranges[i]), (least(l.ranges[i + 1], s.position))) AS v(sequence)
                 WHERE l.ranges[i] <= s.position ORDER BY v.sequence), poison, s.audit_base, s.audit_ledger) held
         WHERE s.namespace_id = ns.namespace_id AND (subscriber_ids IS NULL OR s.subscriber_id = ANY (subscriber_ids))
      ) c
     ORDER BY c.subscriber_id, c.partition;
END
$$;
