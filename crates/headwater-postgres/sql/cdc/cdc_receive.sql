-- headwater.cdc_receive(namespace, slot, term, commit_lsns, nths, sequences, events, errors)
-- Stores what came from a slot, for its owner, and wakes the nodes. What was stored before, for
-- example after a crash between this call and the acknowledgement, stays unchanged. An event that
-- is NULL with an error is poison. Returns how many are new.
-- Raises: WH001, WH002 (lists that are NULL or differ in length), WH040 (the term is over: nothing
-- is stored). Locks: the slot's row, at the end, so that a new owner either sees what was stored,
-- or has refused it. Writes: the inbox, the slot's row; notifies.
CREATE OR REPLACE FUNCTION headwater.cdc_receive(
    namespace text, slot text, term bigint, commit_lsns pg_lsn[], nths int[], sequences bigint[], events text[], errors text[],
    caller headwater.caller DEFAULT current_user
) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(cdc_receive.namespace, caller, 'consumer');
    stored int;
BEGIN
    IF slot IS NULL OR cardinality(commit_lsns) IS DISTINCT FROM cardinality(nths)
       OR cardinality(nths) IS DISTINCT FROM cardinality(sequences) OR cardinality(sequences) IS DISTINCT FROM cardinality(events)
       OR cardinality(events) IS DISTINCT FROM cardinality(errors) OR errors IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'the lists must be of the same length, and the slot given',
            jsonb_build_object('what', 'commit_lsns', 'value', cardinality(commit_lsns)), 'give one of each for every row');
    END IF;
    PERFORM headwater_private.check_slot(ns.namespace_id, slot);
    INSERT INTO headwater_private.cdc_inbox (namespace_id, slot, commit_lsn, nth, global_sequence, event, error, status)
    SELECT ns.namespace_id, cdc_receive.slot, r.commit_lsn, r.nth, r.global_sequence, r.event::json, r.error,
           CASE WHEN r.error IS NULL THEN 'RECEIVED' ELSE 'POISON' END
      FROM unnest(commit_lsns, nths, sequences, events, errors) WITH ORDINALITY
           AS r(commit_lsn, nth, global_sequence, event, error, place)
     ORDER BY r.place
        ON CONFLICT (slot, commit_lsn, nth) DO NOTHING;
    GET DIAGNOSTICS stored = ROW_COUNT;
    PERFORM headwater_private.cdc_fence(ns.namespace_id, cdc_receive.term);
    UPDATE headwater_private.cdc_slots s SET received_lsn = greatest(s.received_lsn, (SELECT max(l) FROM unnest(commit_lsns) l))
     WHERE s.namespace_id = ns.namespace_id;
    IF stored > 0 THEN
        PERFORM pg_notify('headwater_' || cdc_receive.namespace, '') WHERE headwater_private.may_notify();
    END IF;
    RETURN stored;
END
$$;
