-- headwater.alter_namespace(namespace, notify, retention, max_payload_bytes, metadata,
-- keep_for_ever, index)
-- Public: in docs/sql.md.
-- Changes settings of a namespace. A setting that is NULL stays unchanged. keep_for_ever => true
-- removes the retention. The ordering of a namespace cannot be changed.
-- index => 'types' switches the type index on: call headwater.maintain_index until it returns 0 to
-- fill it, or leave that to maintenance. index => 'none' switches it off. Either waits up to 5
-- seconds for open transactions that appended or asked for the horizon, and appends wait behind it.
-- Raises: WH001, WH002, WH038 (those transactions did not end in time: try again). Locks, writes:
-- the namespace's row; see set_index.
CREATE OR REPLACE FUNCTION headwater.alter_namespace(
    namespace         text,
    notify            boolean DEFAULT NULL,
    retention         interval DEFAULT NULL,
    max_payload_bytes int DEFAULT NULL,
    metadata          jsonb DEFAULT NULL,
    keep_for_ever     boolean DEFAULT false,
    index             text DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS headwater.namespace LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(alter_namespace.namespace, caller, 'admin');
BEGIN
    PERFORM headwater_private.check_namespace_settings(NULL, alter_namespace.retention, alter_namespace.max_payload_bytes, alter_namespace.metadata, NULL, NULL);
    PERFORM headwater_private.check_index(alter_namespace.index);
    IF alter_namespace.index <> ns.index THEN
        PERFORM headwater_private.set_index(ns, alter_namespace.index);
    END IF;
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
