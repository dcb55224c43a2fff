-- headwater.cdc_orphans(unread_for)
-- Lists Headwater's durable slots in this database that nobody reads and nobody will: their
-- namespace is gone, or has another slot by now, or no live node of it wants an inbox and nobody
-- has owned the slot for unread_for. A role sees the slots of namespaces that it was granted. The
-- owner of the schema also sees the slots of namespaces that are gone.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.cdc_orphans(unread_for interval, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (slot text, namespace text, reason text) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.check_interval('unread_for', unread_for, '0', '1000 years', 'unread_for is an interval from 0 to 1000 years');
    RETURN QUERY
    SELECT r.slot_name::text, n.namespace,
           CASE WHEN n.namespace_id IS NULL THEN 'the namespace is gone'
                WHEN s.slot <> r.slot_name THEN format('the namespace has slot %s by now', s.slot)
                ELSE 'no node wants it' END
      FROM (SELECT a.*, substring(a.slot_name FROM '^headwater_n([0-9]+)_d[0-9]+$')::int AS namespace_id
              FROM pg_replication_slots a
             WHERE a.database = current_database() AND NOT a.temporary AND NOT a.active) r
      LEFT JOIN headwater_private.namespaces n ON n.namespace_id = r.namespace_id
      LEFT JOIN headwater_private.cdc_slots s ON s.namespace_id = r.namespace_id
     WHERE r.namespace_id IS NOT NULL
       AND CASE WHEN n.namespace_id IS NULL THEN pg_has_role(caller, current_user, 'USAGE')
                WHEN NOT headwater_private.is_granted(n.namespace_id, caller, 'consumer') THEN false
                WHEN s.slot IS NULL THEN true
                WHEN s.slot <> r.slot_name THEN true
                ELSE coalesce(s.lease_until, '-infinity') < clock_timestamp() - cdc_orphans.unread_for
                     AND NOT EXISTS (SELECT FROM headwater_private.cdc_nodes c
                                       JOIN headwater.node_statuses() l ON l.namespace = n.namespace AND l.node_id = c.node_id
                                      WHERE c.namespace_id = n.namespace_id AND c.mode = 'inbox' AND l.alive AND l.instance_id = c.instance_id) END
     ORDER BY 1;
END
$$;
