-- headwater.position_at(namespace, at)
-- Public: in docs/sql.md.
-- The highest position after which every event recorded at or after `at` comes. Sequences and times are not in the same order, so it is the
-- lowest such sequence that counts, and none that is in flight may lie below. Scans the months from `at` on.
-- Raises: WH001, WH006. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.position_at(namespace text, at timestamptz, caller headwater.caller DEFAULT current_user)
RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns   headwater_private.namespaces := headwater_private.open_namespace(position_at.namespace, caller, 'consumer');
    safe bigint;
BEGIN
    -- Two statements, in this order: the second sees all that was settled in the first.
    SELECT h.horizon INTO safe FROM headwater.horizon(position_at.namespace) h;
    RETURN least(safe, (SELECT min(e.global_sequence) - 1 FROM headwater_private.events e
                         WHERE e.namespace_id = ns.namespace_id AND e.recorded_at >= position_at.at));
END
$$;
