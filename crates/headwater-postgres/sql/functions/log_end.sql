-- headwater.log_end(namespace)
-- Public: in docs/sql.md.
-- The highest global_sequence that can be read now; 0: the log is empty. Sequences above it may have been handed out: to transactions that are open, or that were
-- rolled back, whose sequences nobody will ever see. So this is what to wait for, and not the head.
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.log_end(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(log_end.namespace, caller, NULL);
    sealed record;
BEGIN
    IF ns.ordering = 'gapless' THEN
        RETURN (SELECT c.last_sequence FROM headwater_private.counters c WHERE c.namespace_id = ns.namespace_id);
    END IF;
    -- Of sealed months the highest is known, also if they are trimmed.
    SELECT m.ends_at, m.high_sequence INTO sealed FROM headwater_private.months m
     WHERE m.namespace_id = ns.namespace_id ORDER BY m.starts_at DESC LIMIT 1;
    RETURN greatest(sealed.high_sequence, 0,
        (SELECT e.global_sequence FROM headwater_private.events e
          WHERE e.namespace_id = ns.namespace_id AND e.recorded_at >= coalesce(sealed.ends_at, '-infinity')
          ORDER BY e.global_sequence DESC LIMIT 1));
END
$$;
