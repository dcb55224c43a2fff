-- headwater.cdc_tidy(namespace, up_to, keep_for)
-- Marks what the slot's owner has dispatched, and removes what was dispatched, or found to be poison, longer ago than `keep_for`; at most 10,000
-- rows at once. Writes nothing if there is nothing to do. Answers how many were removed.
-- Raises: WH001, WH002. Locks: the rows. Writes: the inbox.
CREATE OR REPLACE FUNCTION headwater.cdc_tidy(namespace text, up_to bigint, keep_for interval)
RETURNS int LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ns      headwater.namespaces := headwater.namespace_row(cdc_tidy.namespace);
    removed int;
BEGIN
    IF keep_for IS NULL OR keep_for < interval '0' THEN
        PERFORM headwater.fail('WH002', format('invalid keep_for %s', coalesce(keep_for::text, 'NULL')),
            jsonb_build_object('what', 'keep_for', 'value', keep_for), 'keep_for is an interval that is not negative');
    END IF;
    UPDATE headwater.cdc_inbox i SET status = 'DISPATCHED'
     WHERE i.namespace_id = ns.namespace_id AND i.inbox_id <= cdc_tidy.up_to AND i.status = 'RECEIVED';
    DELETE FROM headwater.cdc_inbox i
     WHERE i.inbox_id IN (SELECT o.inbox_id FROM headwater.cdc_inbox o
                           WHERE o.namespace_id = ns.namespace_id AND o.status <> 'RECEIVED'
                             AND o.received_at < clock_timestamp() - cdc_tidy.keep_for
                           ORDER BY o.inbox_id LIMIT 10000);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;
