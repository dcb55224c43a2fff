-- headwater.audit_gaps(namespace, max_events)
-- Public: in docs/sql.md.
-- Lists events that lie where a gap was recorded as permanent. There must be none, except poison,
-- past or present.
-- Raises: WH001, WH002 (max_events). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.audit_gaps(namespace text, max_events int DEFAULT 1000, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (global_sequence bigint, event_id uuid) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(audit_gaps.namespace, caller, 'consumer');
BEGIN
    PERFORM headwater_private.check_max_events(audit_gaps.max_events);
    RETURN QUERY
    SELECT DISTINCT f.global_sequence, f.event_id FROM (
        SELECT e.global_sequence, e.event_id
          FROM headwater_private.permanent_gaps g
         CROSS JOIN LATERAL headwater_private.events_in(ns.namespace_id, g.first_sequence, g.last_sequence, NULL, audit_gaps.max_events) e
         WHERE g.namespace_id = ns.namespace_id AND g.proof <> 'poison'
           AND NOT EXISTS (SELECT FROM headwater_private.poison_events p
                            WHERE p.namespace_id = ns.namespace_id AND p.global_sequence = e.global_sequence)
         LIMIT audit_gaps.max_events) f
     ORDER BY f.global_sequence;
END
$$;
