-- headwater.export_events(namespace, after_sequence, max_events)
-- Returns events of a namespace as lines of an export, in order of their sequences. An export calls
-- it in one REPEATABLE READ transaction, so that all lines come from one snapshot.
-- Raises: WH001, WH002 (max_events), WH015 (others than the owner). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.export_events(
    namespace text, after_sequence bigint, max_events int, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (global_sequence bigint, line text) LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO' AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(export_events.namespace, caller, 'owner');
BEGIN
    PERFORM headwater_private.check_max_events(export_events.max_events);
    RETURN QUERY
    SELECT e.global_sequence, jsonb_build_object('kind', 'event', 'row', to_jsonb(e) - 'namespace_id')::text
      FROM headwater.log_page(ns.namespace_id, coalesce(export_events.after_sequence, 0), NULL, export_events.max_events, NULL, NULL, NULL) e;
END
$$;
