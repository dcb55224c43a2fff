-- headwater_private.reset_active(namespace, before)
-- Moves the active subscribers back to just before an event, in a new term without an owner: what
-- the last owner was working on can no longer be written. Returns which ones moved, from where and
-- to where.
--   active          A node handles events of one of its partitions, so its lease still runs. This
--                   includes the lease of an owner that a reset has just taken away. It does not
--                   include a subscriber whose effects are in the transaction of its checkpoint:
--                   those happen once, and are not asked for again. Nor does it include one that is
--                   paused or shared. All partitions of an active subscriber are moved, whoever
--                   owns them.
--   never forwards  A partition that has not come this far stays unchanged.
-- As with headwater.reset_subscriber, what is in flight below stays in the ledger, and counting
-- begins anew. Nothing is put below the first event that is kept.
-- Raises: WH001, WH002, WH006, WH036 (nobody can tell who is active, because the number of
-- partitions is changing right now: then nothing is done).
-- Locks: against trimming, the namespace's subscribers. Writes: subscribers and their ledgers, what
-- was settled ahead.
CREATE OR REPLACE FUNCTION headwater_private.reset_active(namespace text, before bigint)
RETURNS TABLE (subscriber_id text, partition int, was_at bigint, stands_at bigint) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns       headwater_private.namespaces := headwater_private.namespace_row(reset_active.namespace);
    at       timestamptz;
    new_term bigint;
    sub      headwater_private.subscribers;
    ledger   bigint[];
BEGIN
    IF coalesce(before < 1, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid event %s', coalesce(before::text, 'NULL')),
            jsonb_build_object('what', 'before', 'value', before), 'give the global_sequence of an event');
    END IF;
    reset_active.stands_at := headwater_private.kept_position(ns.namespace_id, before - 1);
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, NULL);
    at := clock_timestamp();
    SELECT s.* INTO sub FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.position > reset_active.stands_at AND s.resize_to IS NOT NULL AND s.barrier IS NULL AND NOT s.paused
       AND EXISTS (SELECT FROM headwater_private.members m
                    WHERE m.namespace_id = s.namespace_id AND m.subscriber_id = s.subscriber_id AND m.member_until > at)
     LIMIT 1;
    IF FOUND THEN
        PERFORM headwater_private.fail('WH036', format('subscriber %L changes its number of partitions', sub.subscriber_id),
            jsonb_build_object('subscriber_id', sub.subscriber_id, 'resize_to', sub.resize_to), 'nothing was moved: try again in a second');
    END IF;
    new_term := nextval('headwater_private.terms');
    FOR sub IN SELECT s.* FROM headwater_private.subscribers s
                WHERE s.namespace_id = ns.namespace_id AND s.mode <> 'shared' AND s.position > reset_active.stands_at
                  AND s.subscriber_id IN (
                      SELECT a.subscriber_id FROM headwater_private.subscribers a
                       WHERE a.namespace_id = ns.namespace_id AND a.lease_until > at AND a.report IS NOT NULL
                       GROUP BY a.subscriber_id
                      HAVING NOT bool_or(a.paused) AND NOT bool_or(coalesce((a.report ->> 'transactional')::boolean, false)))
                ORDER BY s.subscriber_id, s.partition
    LOOP
        ledger := headwater_private.ledger_at(reset_active.namespace, reset_active.stands_at,
            headwater_private.ledger_of(sub.namespace_id, sub.subscriber_id, sub.partition, sub.pending_gaps));
        -- The lease and the report stay: the node that had the lease is still there, and takes it
        -- again.
        UPDATE headwater_private.subscribers s
           SET position = reset_active.stands_at, last_event_id = NULL, 
               pending_gaps = headwater_private.keep_ledger(ns.namespace_id, s.subscriber_id, s.partition, ledger), term = new_term, began_in_term = new_term,
               owner_node = NULL, owner_incarnation = NULL, lease = NULL, locked = false,
               audit_base = reset_active.stands_at, audit_ledger = ledger,
               settled_events = 0, settled_sum = 0, late_events = 0, late_sum = 0, updated_at = clock_timestamp()
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = sub.subscriber_id AND s.partition = sub.partition;
        DELETE FROM headwater_private.settled_ahead a
         WHERE a.namespace_id = ns.namespace_id AND a.subscriber_id = sub.subscriber_id AND a.partition = sub.partition;
        DELETE FROM headwater_private.applied_events a
         WHERE a.namespace_id = ns.namespace_id AND a.owner = sub.subscriber_id AND a.global_sequence > reset_active.stands_at;
        reset_active.subscriber_id := sub.subscriber_id;
        reset_active.partition := sub.partition;
        reset_active.was_at := sub.position;
        RETURN NEXT;
    END LOOP;
END
$$;
