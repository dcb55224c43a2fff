-- headwater_private.next_recorded_at(namespace_id, after_sequence)
-- Returns when the first event after a sequence was recorded, as this snapshot shows it; NULL:
-- there is no such event.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.next_recorded_at(namespace_id int, after_sequence bigint)
RETURNS timestamptz LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = next_recorded_at.namespace_id;
    IF ns.storage = 'shared' AND next_recorded_at.after_sequence >= ns.tail_after THEN
        RETURN (SELECT e.recorded_at FROM headwater_private.events e
                 WHERE e.namespace_id = ns.namespace_id AND e.global_sequence > next_recorded_at.after_sequence AND e.recorded_at >= ns.tail_from
                 ORDER BY e.global_sequence LIMIT 1);
    END IF;
    RETURN (SELECT e.recorded_at FROM headwater_private.events_in(ns.namespace_id, next_recorded_at.after_sequence + 1, NULL, NULL, 1) e);
END
$$;
