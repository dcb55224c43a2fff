-- headwater_private.settle_resize(namespace, subscriber_id, incarnation)
-- Takes the next steps of a change of the number of partitions, if their time has come. Returns
-- whether owners must release their partitions for it.
--   halted     When nobody owns a partition any more, the barrier is set to where the furthest has
--              come, including what it has settled ahead. Then partitions are owned again, and none
--              passes the barrier.
--   draining   When all have reached the barrier with the same ledger (each settles late events in
--              its own time), the new partitions take their place, in a new term: what an owner of
--              an old partition still writes matches nothing. An owner may be working on an event
--              of the ledger, so unless the ledger is empty, all partitions are released first.
--              What was settled ahead and lies behind the barrier (the end of a bundle that began
--              before it) or in the ledger is recorded for all new partitions (-1).
-- If the caller's session holds an instance's locks, the caller passes that instance: for all other
-- instances, locks tell sooner than leases that they are gone.
-- Raises: WH001. Locks: the group's rows, never waiting: if one is in use, the step is left to the
-- next call. Writes: the group's rows and ledgers, what was settled ahead.
CREATE OR REPLACE FUNCTION headwater_private.settle_resize(namespace text, subscriber_id text, incarnation uuid DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns       headwater_private.namespaces := headwater_private.namespace_row(settle_resize.namespace);
    sub      headwater_private.subscribers;
    standing record;
    new_term bigint;
    ledger   bigint[];
BEGIN
    PERFORM FROM headwater_private.subscribers s
      WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = settle_resize.subscriber_id
      ORDER BY s.partition FOR UPDATE SKIP LOCKED;
    -- A new snapshot, in which nobody can change the rows.
    SELECT s.* INTO sub FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = settle_resize.subscriber_id AND s.partition = 0
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR sub.resize_to IS NULL THEN
        RETURN false;
    END IF;
    SELECT count(*) AS locked, max(l.position) AS furthest, min(l.position) AS nearest, count(DISTINCT l.size) AS ledgers,
           bool_or(l.owned) AS owned
      INTO standing
      FROM (SELECT s.position,
                   headwater_private.ledger_size(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps) AS size,
                   s.owner_incarnation IS NOT NULL AND s.lease_until > clock_timestamp()
                   AND NOT (s.locked AND s.owner_incarnation IS DISTINCT FROM settle_resize.incarnation
                            AND pg_try_advisory_xact_lock_shared(k.high, k.low)) AS owned
              FROM headwater_private.subscribers s, headwater_private.subscriber_lock(settle_resize.namespace, s.subscriber_id, s.partition) k
             WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = settle_resize.subscriber_id
               FOR UPDATE OF s SKIP LOCKED) l;
    IF standing.locked < sub.partitions OR sub.barrier IS NULL AND standing.owned THEN
        RETURN sub.barrier IS NULL;
    END IF;
    IF sub.barrier IS NULL THEN
        WITH halted AS (
            UPDATE headwater_private.subscribers s
               -- The barrier lies after every event that was settled ahead: no such event is left
               -- to a partition that does not know of it.
               SET barrier = (SELECT greatest(standing.furthest, max(a.sequences[cardinality(a.sequences)])) FROM headwater_private.settled_ahead a
                               WHERE a.namespace_id = ns.namespace_id AND a.subscriber_id = settle_resize.subscriber_id),
                   owner_node = NULL, owner_incarnation = NULL, lease_until = NULL, lease = NULL,
                   locked = false, report = NULL, term = nextval('headwater_private.terms')
             WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = settle_resize.subscriber_id
            RETURNING s.barrier)
        SELECT max(h.barrier) INTO sub.barrier FROM halted h;
    END IF;
    -- Most ledgers differ in size at first. Then their contents are not compared.
    IF standing.nearest >= sub.barrier AND standing.ledgers = 1
       AND (SELECT count(DISTINCT headwater_private.ledger_of(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps)) = 1
              FROM headwater_private.subscribers s
             WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = settle_resize.subscriber_id) THEN
        ledger := headwater_private.ledger_of(sub.namespace_id, sub.subscriber_id, 0, sub.pending_gaps);
        IF standing.owned AND ledger <> '{}' THEN
            RETURN true;
        END IF;
        new_term := nextval('headwater_private.terms');
        DELETE FROM headwater_private.settled_ahead a
         WHERE a.namespace_id = ns.namespace_id AND a.subscriber_id = settle_resize.subscriber_id
           AND a.sequences[cardinality(a.sequences)] <= sub.barrier
           AND NOT EXISTS (SELECT FROM unnest(a.sequences) AS q(sequence)
                            WHERE ledger <> '{}' AND headwater_private.ledger_holds(ledger, ARRAY[q.sequence, q.sequence]));
        UPDATE headwater_private.settled_ahead a SET partition = -1
         WHERE a.namespace_id = ns.namespace_id AND a.subscriber_id = settle_resize.subscriber_id;
        -- The events may belong to another partition now, which counts attempts anew.
        DELETE FROM headwater_private.failing_events f
         WHERE f.namespace_id = ns.namespace_id AND f.subscriber_id = settle_resize.subscriber_id;
        DELETE FROM headwater_private.ledger_chunks c
         WHERE c.namespace_id = ns.namespace_id AND c.subscriber_id = settle_resize.subscriber_id AND c.partition >= sub.resize_to;
        DELETE FROM headwater_private.subscribers s
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = settle_resize.subscriber_id AND s.partition >= sub.resize_to;
        UPDATE headwater_private.subscribers s
           SET partitions = sub.resize_to, resize_to = NULL, barrier = NULL, term = new_term, owner_node = NULL, owner_incarnation = NULL,
               lease_until = NULL, lease = NULL, locked = false, report = NULL, letters_epoch = s.letters_epoch + 1,
               audit_base = s.position, audit_ledger = ledger,
               settled_events = 0, settled_sum = 0, late_events = 0, late_sum = 0, updated_at = clock_timestamp()
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = settle_resize.subscriber_id;
        INSERT INTO headwater_private.subscribers (namespace_id, subscriber_id, partition, mode, partitions, position, last_event_id, pending_gaps,
                                           term, began_in_term, paused, pause_reason, letters_epoch, audit_base, audit_ledger, created_at)
        SELECT s.namespace_id, s.subscriber_id, p.partition, s.mode, s.partitions, s.position, s.last_event_id,
               headwater_private.keep_ledger(s.namespace_id, s.subscriber_id, p.partition, ledger), s.term,
               s.began_in_term, s.paused, s.pause_reason, s.letters_epoch, s.audit_base, s.audit_ledger, s.created_at
          FROM headwater_private.subscribers s, generate_series(sub.partitions, sub.resize_to - 1) AS p(partition)
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = settle_resize.subscriber_id AND s.partition = 0;
    END IF;
    RETURN false;
END
$$;
