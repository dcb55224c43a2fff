-- headwater.alter_namespace(namespace, notify, retention, max_payload_bytes, metadata, keep_for_ever)
-- Public: in docs/sql.md.
-- Changes settings of a namespace; what is NULL stays. keep_for_ever => true removes the retention.
-- The ordering of a namespace cannot be changed.
-- Raises: WH001, WH002. Locks, writes: the namespace's row.
CREATE OR REPLACE FUNCTION headwater.alter_namespace(
    namespace         text,
    notify            boolean DEFAULT NULL,
    retention         interval DEFAULT NULL,
    max_payload_bytes int DEFAULT NULL,
    metadata          jsonb DEFAULT NULL,
    keep_for_ever     boolean DEFAULT false,
    caller headwater.caller DEFAULT current_user
) RETURNS headwater.namespace LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(alter_namespace.namespace, caller, 'admin');
BEGIN
    PERFORM headwater_private.check_namespace_settings(NULL, alter_namespace.retention, alter_namespace.max_payload_bytes, alter_namespace.metadata, NULL, NULL);
    UPDATE headwater_private.namespaces n
       SET notify = coalesce(alter_namespace.notify, n.notify),
           retention = CASE WHEN keep_for_ever THEN NULL ELSE coalesce(alter_namespace.retention, n.retention) END,
           max_payload_bytes = coalesce(alter_namespace.max_payload_bytes, n.max_payload_bytes),
           metadata = coalesce(alter_namespace.metadata, n.metadata)
     WHERE n.namespace_id = ns.namespace_id
    RETURNING n.* INTO ns;
    RETURN headwater_private.shown_namespace(ns);
END
$$;
