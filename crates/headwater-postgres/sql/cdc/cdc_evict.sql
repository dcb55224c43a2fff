-- headwater.cdc_evict(namespace, slot, term)
-- The owner of a namespace's slot ends the session that still reads it: a former owner's, which
-- died without closing its connection, or hangs. Returns false if the owner of Headwater's tables
-- may not do that, the slot does not belong to this namespace, or nobody reads it: then the server
-- ends that session after wal_sender_timeout.
-- Raises: WH001, WH002, WH040 (the term is over). Locks: the slot's row. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater.cdc_evict(namespace text, slot text, term bigint, caller headwater.caller DEFAULT current_user)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(cdc_evict.namespace, caller, 'consumer');
    evicted boolean;
BEGIN
    IF slot IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'slot is needed', jsonb_build_object('what', 'slot', 'value', NULL), 'say which slot');
    END IF;
    PERFORM headwater_private.cdc_fence(ns.namespace_id, cdc_evict.term);
    BEGIN
        SELECT pg_terminate_backend(r.active_pid) INTO evicted FROM pg_replication_slots r
         WHERE r.slot_name = cdc_evict.slot AND r.slot_name LIKE format('headwater\_n%s\_d%%', ns.namespace_id) AND r.database = current_database() AND r.active_pid IS NOT NULL;
    EXCEPTION WHEN insufficient_privilege THEN
        evicted := false;
    END;
    RETURN coalesce(evicted, false);
END
$$;
