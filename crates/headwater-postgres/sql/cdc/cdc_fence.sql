-- headwater_private.cdc_fence(namespace_id, term)
-- Locks the row of a namespace's slot, for an owner in its term, until the transaction ends.
-- Raises: WH040 if the term is over. Locks: the row. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cdc_fence(namespace_id int, term bigint)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    there headwater_private.cdc_slots;
BEGIN
    SELECT s.* INTO there FROM headwater_private.cdc_slots s WHERE s.namespace_id = cdc_fence.namespace_id FOR NO KEY UPDATE;
    IF there.term IS DISTINCT FROM cdc_fence.term OR cdc_fence.term IS NULL THEN
        PERFORM headwater_private.fail('WH040', format('slot %s is owned by node %s by now', coalesce(there.slot, 'of the namespace'), coalesce(there.owner_node, 'none')),
            jsonb_build_object('slot', there.slot, 'term', cdc_fence.term, 'current', there.term, 'owner', there.owner_node),
            'nothing was written: the owner receives what this node did not store');
    END IF;
END
$$;
