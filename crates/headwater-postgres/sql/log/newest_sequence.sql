-- headwater_private.newest_sequence(ns)
-- Returns the highest global_sequence that this snapshot shows of a namespace; 0: it has no events.
-- The highest sequence of sealed months is known even if they are trimmed.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.newest_sequence(ns headwater_private.namespaces)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest bigint;
BEGIN
    IF ns.storage = 'shared' THEN
        SELECT e.global_sequence INTO newest FROM headwater_private.events e
         WHERE e.namespace_id = ns.namespace_id AND e.recorded_at >= ns.tail_from
         ORDER BY e.global_sequence DESC LIMIT 1;
    ELSE
        EXECUTE format('SELECT e.global_sequence FROM headwater_private.%I e WHERE e.namespace_id = $1 AND e.recorded_at >= $2
                         ORDER BY e.global_sequence DESC LIMIT 1', headwater_private.log_table(ns))
           INTO newest USING ns.namespace_id, ns.tail_from;
    END IF;
    RETURN greatest(newest, ns.tail_after, 0);
END
$$;
