-- headwater.log_end(namespace)
-- Public: in docs/sql.md.
-- Returns the highest global_sequence that can be read now; 0: the log is empty. Higher sequences
-- may have been handed out, to transactions that are open or that were rolled back. Nobody will
-- ever see the sequences of the latter. So wait for this value, not for the head.
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.log_end(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(log_end.namespace, caller, NULL);
BEGIN
    IF ns.ordering = 'gapless' THEN
        RETURN headwater_private.counted(ns.namespace_id);
    END IF;
    RETURN headwater_private.newest_sequence(ns);
END
$$;
