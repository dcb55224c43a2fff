-- headwater.faults(namespace)
-- Public: in docs/sql.md.
-- Lists what contradicts the laws in the rows and tables of a namespace, as far as lookups can
-- tell. `headwater doctor` calls it. The audits find what takes reading the log.
--   fault   position_beyond_head     subscriber `name` is ahead of the log: it will skip coming
--                                    events
--           ledger_beyond_head       the pending gaps of subscriber `name` are ahead of the log
--           claim_beyond_head        a claim, retry or frontier of shared subscriber `name` is
--                                    ahead
--           gap_beyond_head          a gap is recorded as permanent that the log has not reached:
--                                    an event that comes there would be skipped
--           sequence_behind_log      the log has events above the sequence or counter `name`: their
--                                    sequences will be handed out again
--           sequence_settings        the sequence `name` caches, cycles or takes steps: the
--                                    horizon's proof does not hold
--           month_gone               the table of the sealed month `name` is gone, and the month
--                                    was not trimmed: its events are lost
--           missing_index            the month `name` lacks the index `detail`, or has an invalid
--                                    one
--           sealed_month_changed     the sealed month `name` has events above its highest sequence:
--                                    readers skip them
--           seal_broken              the sealed month `name` lacks its trigger
--           month_detaching          a detachment of month `name` was begun and has not ended: its
--                                    events are not visible
--           move_unfinished          a move to the storage `name` was begun more than a day ago,
--                                    and has not switched
--           trigger_disabled         the trigger `detail` of table `name` is off
--           missing_partition        the subscriber `name` lacks some of its partitions: nobody
--                                    gets their events
--           letter_of_another_event  a dead letter of subscriber `name` belongs to an event that
--                                    the log has lost: another event has its sequence now
--           lease_too_long           the lease of subscriber `name` ends later than any owner could
--                                    ask for: the clock was set back
--           overdue                  events or schedules were due two minutes ago, and nobody fires
--                                    them
--   mended_by  the statement that mends it, if a single statement does
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.faults(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (fault text, name text, first_sequence bigint, last_sequence bigint, detail text, mended_by text) 
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(faults.namespace, caller, NULL);
    head   bigint := CASE WHEN ns.sequence IS NOT NULL THEN coalesce(pg_sequence_last_value(ns.sequence), 0)
                          ELSE headwater_private.counted(ns.namespace_id) END;
    newest bigint;
    month  record;
    high   bigint;
BEGIN
    newest := headwater_private.newest_sequence(ns);
    RETURN QUERY
    SELECT 'position_beyond_head', s.subscriber_id, head, s.position, NULL::text, NULL::text FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.position > head
     UNION ALL
    SELECT 'ledger_beyond_head', s.subscriber_id, head, g.last, NULL, NULL
      FROM headwater_private.subscribers s CROSS JOIN LATERAL (SELECT max(g) AS last FROM unnest(headwater_private.ledger_cover(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps)) g) g
     WHERE s.namespace_id = ns.namespace_id AND g.last > head
     UNION ALL
    SELECT 'claim_beyond_head', s.subscriber_id, head, greatest(c.last_sequence, (q.state).frontier), NULL, NULL FROM headwater_private.subscribers s
      JOIN headwater_private.queue_states q ON q.namespace_id = s.namespace_id AND q.subscriber_id = s.subscriber_id
     CROSS JOIN LATERAL (SELECT max(c.last_sequence) AS last_sequence FROM headwater_private.claims c
                          WHERE c.namespace_id = s.namespace_id AND c.subscriber_id = s.subscriber_id) c
     WHERE s.namespace_id = ns.namespace_id AND s.partition = 0 AND q.number IS NOT NULL AND greatest(c.last_sequence, (q.state).frontier) > head
     UNION ALL
    SELECT 'claim_beyond_head', r.subscriber_id, head, max(r.sequences[cardinality(r.sequences)]), NULL, NULL FROM headwater_private.retries r
     WHERE r.namespace_id = ns.namespace_id AND r.sequences[cardinality(r.sequences)] > head GROUP BY r.subscriber_id
     UNION ALL
    SELECT 'gap_beyond_head', NULL, g.first_sequence, g.last_sequence, g.proof,
           format('DELETE FROM headwater_private.permanent_gaps WHERE namespace_id = %s AND last_sequence > %s', ns.namespace_id, head)
      FROM headwater_private.permanent_gaps g
     WHERE g.namespace_id = ns.namespace_id AND g.last_sequence > head
     UNION ALL
    SELECT 'sequence_behind_log', coalesce(ns.sequence::text, 'headwater_private.counters'), head, newest, NULL,
           CASE WHEN ns.sequence IS NOT NULL THEN format('SELECT setval(%L, %s)', ns.sequence, newest)
                ELSE format('UPDATE headwater_private.counters SET last_sequence = %s WHERE namespace_id = %s', newest, ns.namespace_id) END
     WHERE newest > head
     UNION ALL
    SELECT 'sequence_settings', q.seqrelid::regclass::text, NULL, NULL,
           format('CACHE %s INCREMENT %s%s', q.seqcache, q.seqincrement, CASE WHEN q.seqcycle THEN ' CYCLE' ELSE '' END),
           format('ALTER SEQUENCE %s CACHE 1 INCREMENT 1 NO CYCLE', ns.sequence)
      FROM pg_catalog.pg_sequence q
     WHERE q.seqrelid = ns.sequence AND (q.seqcache <> 1 OR q.seqincrement <> 1 OR q.seqcycle)
     UNION ALL
    SELECT 'missing_partition', s.subscriber_id, NULL, NULL, format('%s of %s', count(*), max(s.partitions)), NULL FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id
     GROUP BY s.subscriber_id HAVING count(*) <> max(s.partitions) OR min(s.partitions) <> max(s.partitions)
     UNION ALL
    (SELECT 'letter_of_another_event', d.subscriber_id, d.global_sequence, d.global_sequence, d.event_id::text, NULL
       FROM headwater_private.dead_letters d
      CROSS JOIN LATERAL headwater_private.events_at(ns.namespace_id, ARRAY[d.global_sequence]) e
      WHERE d.namespace_id = ns.namespace_id AND d.state IN ('dead', 'parked', 'redriving') AND e.event_id <> d.event_id LIMIT 100)
     UNION ALL
    SELECT 'lease_too_long', s.subscriber_id, NULL, NULL, s.lease_until::text, NULL FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.lease_until > clock_timestamp() + s.lease + interval '1 minute'
     UNION ALL
    SELECT 'overdue', NULL, NULL, NULL, format('%s events', count(*)), NULL FROM headwater_private.due_events d
     WHERE d.namespace_id = ns.namespace_id AND d.fire_at < clock_timestamp() - interval '2 minutes' AND d.failures = 0 HAVING count(*) > 0
     UNION ALL
    SELECT 'overdue', s.name, NULL, NULL, 'schedule', NULL FROM headwater_private.schedules s
     WHERE s.namespace_id = ns.namespace_id AND s.active AND s.fire_at < clock_timestamp() - interval '2 minutes' AND s.failures = 0
     UNION ALL
    SELECT 'trigger_disabled', t.tgrelid::regclass::text, NULL, NULL, t.tgname::text, format('ALTER TABLE %s ENABLE TRIGGER %I', t.tgrelid::regclass, t.tgname)
      FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'headwater_private'::regnamespace AND NOT t.tgisinternal AND t.tgenabled IN ('D', 'R')
       AND (c.relname !~ '^events_n\d' OR c.relname ~ format('^events_n%s(_|$)', ns.namespace_id))
     UNION ALL
    SELECT 'missing_index', l.leaf, NULL, NULL, w.name,
           CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
                              WHERE i.indrelid = l.leaf_id AND c.relname = l.leaf || '_' || w.name)
                THEN format('REINDEX INDEX headwater_private.%I', l.leaf || '_' || w.name) ELSE format('SELECT headwater_private.equip_leaf(%L)', l.leaf) END
      FROM headwater_private.leaves(ns.namespace_id) l
     CROSS JOIN unnest(ARRAY['sequence', 'id', 'stream', 'correlation', 'causation']) AS w(name)
     WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
                        WHERE i.indrelid = l.leaf_id AND i.indisvalid AND c.relname = l.leaf || '_' || w.name)
     UNION ALL
    SELECT 'month_detaching', l.leaf, NULL, NULL, NULL, NULL FROM headwater_private.leaves(ns.namespace_id) l WHERE l.detaching
     UNION ALL
    SELECT 'move_unfinished', v.storage, NULL, NULL, NULL, format('SELECT headwater.set_storage(%L, %L)', ns.namespace, v.storage)
      FROM headwater_private.storage_moves v WHERE v.namespace_id = ns.namespace_id AND v.began_at < clock_timestamp() - interval '1 day'
     UNION ALL
    SELECT 'month_gone', m.leaf, m.first_sequence, m.last_sequence, NULL, NULL FROM headwater_private.months m
     WHERE m.namespace_id = ns.namespace_id AND m.trimmed_at IS NULL AND m.last_sequence IS NOT NULL
       AND CASE WHEN ns.storage = 'own' AND m.leaf ~ '^events_n' THEN NOT EXISTS (SELECT FROM headwater_private.leaves(ns.namespace_id) l WHERE l.leaf = m.leaf)
                ELSE to_regclass(format('headwater_private.%I', m.leaf)) IS NULL END;

    FOR month IN SELECT m.* FROM headwater_private.months m
                  WHERE m.namespace_id = ns.namespace_id AND m.trimmed_at IS NULL
                    AND to_regclass(format('headwater_private.%I', m.leaf)) IS NOT NULL
                    AND NOT EXISTS (SELECT FROM headwater_private.leaves(ns.namespace_id) l WHERE l.leaf = m.leaf AND l.detaching) LOOP
        BEGIN
            EXECUTE format('SELECT max(global_sequence) FROM headwater_private.%I WHERE namespace_id = $1', month.leaf)
               INTO high USING ns.namespace_id;
            -- A subtransaction releases its locks when it ends: so this never holds locks on more
            -- than one month.
            RAISE EXCEPTION USING ERRCODE = 'WH099', MESSAGE = 'looked';
        EXCEPTION WHEN SQLSTATE 'WH099' THEN
            NULL;
        END;
        IF high > month.high_sequence THEN
            RETURN QUERY SELECT 'sealed_month_changed', month.leaf, month.high_sequence, high, NULL::text, NULL::text;
        END IF;
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t
                        WHERE t.tgrelid = format('headwater_private.%I', month.leaf)::regclass AND t.tgname = 'headwater_sealed') THEN
            RETURN QUERY SELECT 'seal_broken', month.leaf, NULL::bigint, NULL::bigint, 'headwater_sealed',
                format('CREATE TRIGGER headwater_sealed BEFORE INSERT ON headwater_private.%I FOR EACH ROW EXECUTE FUNCTION headwater_private.refuse_sealed()', month.leaf);
        END IF;
    END LOOP;
END
$$;
