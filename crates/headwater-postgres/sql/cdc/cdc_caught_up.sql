-- headwater.cdc_caught_up(namespace, term, caught_up)
-- The owner of a namespace's slot records whether commits reach the inbox at once, or lie behind a
-- backlog. While there is a backlog, nodes read the log.
-- Raises: WH001, WH002, WH040 (the term is over). Locks, writes: the slot's row; notifies.
CREATE OR REPLACE FUNCTION headwater.cdc_caught_up(namespace text, term bigint, caught_up boolean, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(cdc_caught_up.namespace, caller, 'consumer');
BEGIN
    IF caught_up IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'caught_up is needed', jsonb_build_object('what', 'caught_up', 'value', NULL), 'say true or false');
    END IF;
    PERFORM headwater_private.cdc_fence(ns.namespace_id, cdc_caught_up.term);
    UPDATE headwater_private.cdc_slots s SET caught_up = cdc_caught_up.caught_up WHERE s.namespace_id = ns.namespace_id;
    PERFORM pg_notify('headwater_' || cdc_caught_up.namespace, '') WHERE headwater_private.may_notify();
END
$$;
