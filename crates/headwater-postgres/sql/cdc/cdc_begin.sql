-- headwater.cdc_begin(namespace, slot, term, system_identifier, timeline)
-- Records that the owner of a namespace's slot has begun to read it. If the server is not the one
-- that was read before (replaced, restored, promoted), or the slot is another one, the inbox
-- belongs to another history. Then the inbox is emptied, and the place up to which it was received
-- is forgotten. Returns whether the inbox was kept, and the end of the WAL: everything up to there
-- is a backlog.
-- Raises: WH001, WH002, WH040 (the term is over). Locks: the slot's row. Writes: it, and the inbox;
-- notifies.
CREATE OR REPLACE FUNCTION headwater.cdc_begin(
    namespace text, slot text, term bigint, system_identifier text, timeline int, OUT kept boolean, OUT wal_end pg_lsn,
    caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(cdc_begin.namespace, caller, 'consumer');
    before headwater_private.cdc_slots;
BEGIN
    IF slot IS NULL OR system_identifier IS NULL OR timeline IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'slot, system_identifier and timeline are needed',
            jsonb_build_object('what', 'slot', 'value', slot), 'the server tells them: IDENTIFY_SYSTEM');
    END IF;
    PERFORM headwater_private.check_slot(ns.namespace_id, slot);
    PERFORM headwater_private.cdc_fence(ns.namespace_id, cdc_begin.term);
    SELECT s.* INTO before FROM headwater_private.cdc_slots s WHERE s.namespace_id = ns.namespace_id;
    cdc_begin.kept := before.system_identifier IS NULL OR (before.slot, before.system_identifier, before.timeline)
                      = (cdc_begin.slot, cdc_begin.system_identifier, cdc_begin.timeline);
    UPDATE headwater_private.cdc_slots s
       SET slot = cdc_begin.slot, system_identifier = cdc_begin.system_identifier, timeline = cdc_begin.timeline,
           begun_at = clock_timestamp(), reading = true, received_lsn = CASE WHEN cdc_begin.kept THEN s.received_lsn END
     WHERE s.namespace_id = ns.namespace_id;
    IF NOT cdc_begin.kept THEN
        DELETE FROM headwater_private.cdc_inbox i WHERE i.namespace_id = ns.namespace_id;
    END IF;
    cdc_begin.wal_end := pg_current_wal_flush_lsn();
    PERFORM pg_notify('headwater_' || cdc_begin.namespace, '') WHERE headwater_private.may_notify();
END
$$;
