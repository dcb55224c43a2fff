-- headwater.position_at(namespace, at)
-- Public: in docs/sql.md.
-- Returns the highest position after which every event recorded at or after `at` comes. Sequences
-- and times are not in the same order. So the lowest sequence of these events decides, and no event
-- in flight may lie below it. Scans the months from `at` on.
-- Raises: WH001, WH006. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.position_at(namespace text, at timestamptz, caller headwater.caller DEFAULT current_user)
RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns   headwater_private.namespaces := headwater_private.open_namespace(position_at.namespace, caller, 'consumer');
    safe bigint;
    place bigint;
BEGIN
    -- Two statements, in this order: the second sees everything that the first found settled.
    SELECT h.horizon INTO safe FROM headwater_private.horizon_of(ns.namespace_id) h;
    SELECT min(f.first) - 1 INTO place
      FROM headwater_private.by_month(
               NULL::bigint, 'SELECT min(e.global_sequence) FROM %s e WHERE %s AND e.namespace_id = $1 AND e.recorded_at >= $5', ns.namespace_id,
               from_at => position_at.at) AS f(first);
    RETURN least(safe, place);
END
$$;
