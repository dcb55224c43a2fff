-- headwater_private.any_visible(namespace_id, gaps, known)
-- Returns whether an event is visible in `gaps` (first, last, first, last, …). Events in `known` do
-- not count, and neither does poison that was not redelivered.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.any_visible(namespace_id int, gaps bigint[], known bigint[])
RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF gaps = '{}' THEN
        RETURN false;
    END IF;
    RETURN EXISTS (
        SELECT FROM headwater_private.visible_in(any_visible.namespace_id, gaps, cardinality(known) + 1000) e
         WHERE e.global_sequence <> ALL (known)
           AND NOT EXISTS (SELECT FROM headwater_private.poison_events p
                            WHERE p.namespace_id = any_visible.namespace_id AND p.global_sequence = e.global_sequence AND NOT p.redelivered));
END
$$;
