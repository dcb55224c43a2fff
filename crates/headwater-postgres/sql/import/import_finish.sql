-- headwater.import_finish(namespace, ending, events, rows)
-- Ends an import. `ending` is the last line of the export, which says how many events and other
-- rows it has; this many must have been stored. Positions, gaps, queues and streams must fit the
-- log. The sequence continues above all values that were ever handed out, past months are sealed,
-- and subscribers begin a new term.
-- Raises: WH001, WH002 (the export is incomplete, or contradicts itself), WH015 (others than the
-- owner). Locks: past months, as seal_months does. Writes: the namespace, subscribers, months.
CREATE OR REPLACE FUNCTION headwater.import_finish(
    namespace text, ending jsonb, events bigint, rows bigint, caller headwater.caller DEFAULT current_user
) RETURNS headwater.namespace LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns    headwater_private.namespaces := headwater_private.open_namespace(import_finish.namespace, caller, 'owner');
    last  bigint := headwater_private.highest_event(ns.namespace_id);
    begun bigint := nextval('headwater_private.terms');
    fault record;
BEGIN
    IF (ns.created_at = now() AND ending ->> 'events' = events::text AND ending ->> 'rows' = rows::text) IS NOT TRUE THEN
        PERFORM headwater_private.fail('WH002', CASE WHEN ending IS NULL THEN 'the export has no last line' ELSE format('the export says %s, but %s events and %s other rows were imported', ending, events, rows) END,
            jsonb_build_object('what', 'ending', 'value', ending), 'the file is incomplete: export it again');
    END IF;
    IF ns.sequence IS NULL THEN
        UPDATE headwater_private.counters c SET last_sequence = greatest(c.last_sequence, last) WHERE c.namespace_id = ns.namespace_id;
    ELSE
        PERFORM setval(ns.sequence, greatest(pg_sequence_last_value(ns.sequence), last));
    END IF;
    PERFORM headwater_private.check_imported(ns);
    SELECT f.subscriber_id, f.partition INTO fault FROM headwater_private.failing_events f
     WHERE f.namespace_id = ns.namespace_id
       AND (f.term NOT IN (0, 1) OR NOT headwater_private.are_attempts(f.attempts) OR f.attempts = '[]' OR NOT isfinite(f.retry_at) OR f.sequences = '{}'
            OR NOT EXISTS (SELECT FROM headwater_private.subscribers s
                            WHERE s.namespace_id = f.namespace_id AND s.subscriber_id = f.subscriber_id AND s.partition = f.partition))
     LIMIT 1;
    IF FOUND THEN
        PERFORM headwater_private.fail('WH002', format('the export contradicts itself: the attempts of subscriber %L', left(fault.subscriber_id, 80)),
            to_jsonb(fault) || '{"what": "failing_events"}', 'the file is damaged: export it again');
    END IF;
    SELECT d.subscriber_id, d.global_sequence INTO fault FROM headwater_private.dead_letters d
     WHERE d.namespace_id = ns.namespace_id AND NOT headwater_private.are_attempts(d.attempts) LIMIT 1;
    IF FOUND THEN
        PERFORM headwater_private.fail('WH002', format('the export contradicts itself: the attempts of a dead letter of subscriber %L', left(fault.subscriber_id, 80)),
            to_jsonb(fault) || '{"what": "dead_letters"}', 'the file is damaged: export it again');
    END IF;
    -- A long ledger is kept in chunks, as elsewhere. Where a queue began stays in its row.
    UPDATE headwater_private.subscribers s SET pending_gaps = headwater_private.keep_ledger(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps)
     WHERE s.namespace_id = ns.namespace_id AND s.pending_gaps <> '{}' AND s.mode <> 'shared';
    -- Use terms of this server: the terms of the export only tell what came before what.
    UPDATE headwater_private.subscribers s SET term = begun, began_in_term = begun WHERE s.namespace_id = ns.namespace_id;
    UPDATE headwater_private.dead_letters d SET term = begun + d.term - 1 WHERE d.namespace_id = ns.namespace_id;
    UPDATE headwater_private.failing_events f SET term = begun + f.term - 1 WHERE f.namespace_id = ns.namespace_id;
    INSERT INTO headwater_private.queues (namespace_id, subscriber_id)
    SELECT s.namespace_id, s.subscriber_id FROM headwater_private.subscribers s WHERE s.namespace_id = ns.namespace_id AND s.mode = 'shared' AND s.partition = 0;
    -- Create the months in between, then seal all of the past.
    IF ns.storage = 'own' THEN
        UPDATE headwater_private.namespaces n
           SET sealed_before = least(n.sealed_before, (SELECT min(l.starts_at) FROM headwater_private.leaves(n.namespace_id) l))
         WHERE n.namespace_id = ns.namespace_id RETURNING n.* INTO ns;
        PERFORM headwater_private.create_leaf(ns.namespace_id, m.starts_at)
           FROM headwater_private.missing_months(ns.namespace_id, ns.sealed_before, clock_timestamp()) m;
        PERFORM headwater.maintain_namespace(import_finish.namespace);
        PERFORM headwater.seal_months(import_finish.namespace);
        UPDATE headwater_private.namespaces n SET tail_from = ns.sealed_before WHERE n.namespace_id = ns.namespace_id AND n.tail_from = '-infinity';
    END IF;
    PERFORM headwater_private.check_imported_queues(ns.namespace_id);
    BEGIN
        SELECT f.* INTO fault
          FROM (SELECT a.problem AS fault, a.subscriber_id AS name, a.first_sequence, a.last_sequence FROM headwater.audit_queues(import_finish.namespace) a
                 UNION ALL
                SELECT f.fault, f.name, f.first_sequence, f.last_sequence FROM headwater.faults(import_finish.namespace) f WHERE f.fault <> 'overdue') f
         LIMIT 1;
        -- A subtransaction releases its locks when it ends.
        RAISE EXCEPTION USING ERRCODE = 'WH099', MESSAGE = 'looked';
    EXCEPTION WHEN SQLSTATE 'WH099' THEN
        NULL;
    END;
    IF fault.fault IS NOT NULL THEN
        PERFORM headwater_private.fail('WH002', format('the export contradicts itself: %s', fault.fault), to_jsonb(fault) || '{"what": "export"}',
            'the file is damaged: export it again');
    END IF;
    RETURN headwater_private.shown_namespace(headwater_private.namespace_row(import_finish.namespace));
END
$$;
