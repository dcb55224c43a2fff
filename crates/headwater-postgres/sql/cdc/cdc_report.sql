-- headwater.cdc_report(namespace, node_id, instance_id, mode, state, slot, error, warnings,
-- received, taken)
-- A node reports what its live source does: when that changes, and with heartbeats. Returns false,
-- and writes nothing, if another process owns the node id by now.
-- Raises: WH001, WH002. Locks, writes: the node's previous report.
CREATE OR REPLACE FUNCTION headwater.cdc_report(
    namespace text, node_id text, instance_id uuid, mode text, state text, slot text, error text, warnings text[], received bigint, taken bigint,
    caller headwater.caller DEFAULT current_user
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(cdc_report.namespace, caller, 'consumer');
    at timestamptz := clock_timestamp();
BEGIN
    IF coalesce(mode NOT IN ('direct', 'inbox'), true) OR coalesce(state NOT IN ('starting', 'streaming', 'degraded', 'recovering'), true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid mode %L or state %L', mode, state), jsonb_build_object('what', 'state', 'value', state),
            'a mode is direct or inbox; a state starting, streaming, degraded or recovering');
    END IF;
    IF received IS NULL OR taken IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'received and taken are needed', jsonb_build_object('what', 'received', 'value', received),
            'say how many events came, and how many were taken');
    END IF;
    INSERT INTO headwater_private.cdc_nodes AS c (namespace_id, node_id, instance_id, mode, state, since, reported_at, received, taken, slot, error, warnings)
    SELECT ns.namespace_id, n.node_id, n.instance_id, cdc_report.mode, cdc_report.state, at, at, cdc_report.received, cdc_report.taken,
           cdc_report.slot, cdc_report.error, coalesce(cdc_report.warnings, '{}')
      FROM headwater_private.nodes n
     WHERE n.namespace_id = ns.namespace_id AND n.node_id = cdc_report.node_id AND n.instance_id = cdc_report.instance_id
        ON CONFLICT (namespace_id, node_id) DO UPDATE
       SET since = CASE WHEN (c.instance_id, c.state) = (excluded.instance_id, excluded.state) THEN c.since ELSE excluded.since END,
           instance_id = excluded.instance_id, mode = excluded.mode, state = excluded.state, reported_at = excluded.reported_at,
           received = excluded.received, taken = excluded.taken, slot = excluded.slot, error = excluded.error, warnings = excluded.warnings;
    RETURN FOUND;
END
$$;
