-- headwater.cdc_begin(namespace, slot, system_identifier, timeline, node)
-- Says who reads a namespace's durable slot from now on. If the server is not the one that was read before (replaced, restored, promoted), what
-- is in the inbox is of another history and goes. Answers whether what was there is kept.
-- Raises: WH001, WH002. Locks: the slot's row. Writes: it, and the inbox.
CREATE OR REPLACE FUNCTION headwater.cdc_begin(namespace text, slot text, system_identifier text, timeline int, node text)
RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ns     headwater.namespaces := headwater.namespace_row(cdc_begin.namespace);
    before headwater.cdc_slots;
BEGIN
    IF slot IS NULL OR system_identifier IS NULL OR timeline IS NULL OR node IS NULL THEN
        PERFORM headwater.fail('WH002', 'slot, system_identifier, timeline and node are needed',
            jsonb_build_object('what', 'slot', 'value', slot), 'the server tells them: IDENTIFY_SYSTEM');
    END IF;
    SELECT s.* INTO before FROM headwater.cdc_slots s WHERE s.namespace_id = ns.namespace_id FOR UPDATE;
    INSERT INTO headwater.cdc_slots AS s (namespace_id, slot, system_identifier, timeline, owner_node, begun_at)
    VALUES (ns.namespace_id, cdc_begin.slot, cdc_begin.system_identifier, cdc_begin.timeline, cdc_begin.node, clock_timestamp())
        ON CONFLICT (namespace_id) DO UPDATE
       SET slot = excluded.slot, system_identifier = excluded.system_identifier, timeline = excluded.timeline,
           owner_node = excluded.owner_node, begun_at = excluded.begun_at;
    IF before.slot IS NULL OR (before.slot, before.system_identifier, before.timeline)
                              = (cdc_begin.slot, cdc_begin.system_identifier, cdc_begin.timeline) THEN
        RETURN true;
    END IF;
    DELETE FROM headwater.cdc_inbox i WHERE i.namespace_id = ns.namespace_id;
    RETURN false;
END
$$;
