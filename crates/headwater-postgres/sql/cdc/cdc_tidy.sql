-- headwater.cdc_tidy(namespace, term, above, up_to, keep_for)
-- Marks what the slot's owner has dispatched, above what it has marked before. Removes what was
-- dispatched, or found to be poison, longer ago than `keep_for`. It looks only at the oldest 5,000
-- rows, so that rows that are kept cost nothing. It writes nothing if there is nothing to do.
-- Returns how many were removed.
-- Raises: WH001, WH002, WH040 (the term is over). Locks: the rows, and at the end the slot's row.
-- Writes: the inbox.
CREATE OR REPLACE FUNCTION headwater.cdc_tidy(namespace text, term bigint, above bigint, up_to bigint, keep_for interval, caller headwater.caller DEFAULT current_user)
RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(cdc_tidy.namespace, caller, 'consumer');
    marked  int;
    removed int;
BEGIN
    PERFORM headwater_private.check_interval('keep_for', keep_for, '0', '1000 years', 'keep_for is an interval from 0 to 1000 years');
    IF above IS NULL OR up_to IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'above and up_to are needed', jsonb_build_object('what', 'up_to', 'value', up_to),
            'say what was dispatched');
    END IF;
    UPDATE headwater_private.cdc_inbox i SET status = 'DISPATCHED'
     WHERE i.namespace_id = ns.namespace_id AND i.inbox_id > cdc_tidy.above AND i.inbox_id <= cdc_tidy.up_to AND i.status = 'RECEIVED';
    GET DIAGNOSTICS marked = ROW_COUNT;
    DELETE FROM headwater_private.cdc_inbox i
     WHERE i.inbox_id IN (SELECT o.inbox_id
                            FROM (SELECT c.inbox_id, c.status, c.received_at FROM headwater_private.cdc_inbox c
                                   WHERE c.namespace_id = ns.namespace_id ORDER BY c.inbox_id LIMIT 5000) o
                           WHERE o.status <> 'RECEIVED' AND o.received_at < clock_timestamp() - cdc_tidy.keep_for);
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF marked + removed > 0 OR cdc_tidy.term IS NULL THEN
        PERFORM headwater_private.cdc_fence(ns.namespace_id, cdc_tidy.term);
    END IF;
    RETURN removed;
END
$$;
