-- headwater.redeliver_poison(namespace, global_sequence)
-- Call this after a poison row was repaired. It delivers the event late to every subscriber that is
-- past it, as an event that committed after its gap was passed: the sequence goes into their
-- ledgers. Subscribers that are not past it read it like any other event. All begin a new term
-- without an owner, because what was read before the repair is no longer valid. What the last owner
-- was working on may be delivered again. Queues are left alone: emit the event again for them.
-- Returns how many partitions of subscribers will get the event late.
-- Raises: WH001, WH002 (it is not poison, or was redelivered). Locks: the namespace's subscribers.
-- Writes: the poison's row, subscribers and their ledgers.
CREATE OR REPLACE FUNCTION headwater.redeliver_poison(namespace text, global_sequence bigint, caller headwater.caller DEFAULT current_user)
RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns       headwater_private.namespaces := headwater_private.open_namespace(redeliver_poison.namespace, caller, 'consumer');
    new_term bigint;
    told     int;
BEGIN
    UPDATE headwater_private.poison_events p SET redelivered = true, redelivered_at = clock_timestamp()
     WHERE p.namespace_id = ns.namespace_id AND p.global_sequence = redeliver_poison.global_sequence AND NOT p.redelivered;
    IF NOT FOUND THEN
        PERFORM headwater_private.fail('WH002', format('event %s is not poison', coalesce(global_sequence::text, 'NULL')),
            jsonb_build_object('what', 'global_sequence', 'value', global_sequence),
            'see what is: SELECT * FROM headwater_private.poison_events WHERE NOT redelivered');
    END IF;
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, NULL);
    new_term := nextval('headwater_private.terms');
    WITH subscribers AS (
        UPDATE headwater_private.subscribers s
           SET pending_gaps = CASE WHEN s.position >= redeliver_poison.global_sequence
                                   THEN headwater_private.keep_ledger(s.namespace_id, s.subscriber_id, s.partition, headwater_private.ledger_with(
                                            headwater_private.ledger_of(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps),
                                            redeliver_poison.global_sequence)) ELSE s.pending_gaps END,
               audit_ledger = CASE WHEN s.audit_base >= redeliver_poison.global_sequence
                                   THEN headwater_private.ledger_with(s.audit_ledger, redeliver_poison.global_sequence) ELSE s.audit_ledger END,
               -- The node that had the lease is still there, and takes it again.
               term = new_term, owner_node = NULL, owner_incarnation = NULL, lease = NULL, locked = false, updated_at = clock_timestamp()
         WHERE s.namespace_id = ns.namespace_id AND s.mode <> 'shared'
        RETURNING s.position
    )
    SELECT count(*) INTO told FROM subscribers s WHERE s.position >= redeliver_poison.global_sequence;
    RETURN told;
END
$$;
