-- headwater_private.shown_namespace(ns)
-- Returns a namespace as its users see it, without what Headwater stores there for itself.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.shown_namespace(ns headwater_private.namespaces)
RETURNS headwater.namespace LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT ns.namespace_id, ns.namespace, ns.ordering, ns.notify, ns.retention, ns.max_payload_bytes, ns.metadata, ns.created_at, ns.months_made_by,
           ns.storage, ns.index, coalesce((SELECT i.state FROM headwater_private.index_states i WHERE i.namespace_id = ns.namespace_id), 'none')
$$;
